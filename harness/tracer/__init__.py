"""The tracer: what runs inside the server under test, in a trace launch only, and never in the image.

`path/` goes in front of the server's PYTHONPATH. Python imports `sitecustomize` from it before anything
else, and that one installs `qualify_tracer` and then runs the sitecustomize that it hides. Everything
below `path/` is standard library only and Python 3.9 syntax, because it runs in the server's Python.
Nothing of the harness imports it: what it writes is read by `harness.observe.jit`.
"""
