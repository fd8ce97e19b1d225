"""Stands in for a python with vLLM: `serve` is the fake server, the handler is our client, `bench serve` is as told.

usage: stub_vllm.py BENCH ARGUMENTS-OF-PYTHON...

BENCH is how `bench serve` behaves: `works`, `asserts` (as that of 0.25.1 did without a tokenizer), `counts-others`,
`writes-nothing` or `hangs`. It reads data set and tokenizer as vLLM does: rows of JSON, and the class that the
folder's tokenizer_config.json names.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import ours
from harness.paths import PROJECT

OURS = PROJECT / "benchmarks" / "peers" / "ours.py"


def main(how: str, arguments: list[str]) -> None:
    if arguments[0] != "-m":
        os.execv(sys.executable, [sys.executable, str(OURS), *arguments[1:]])
    if arguments[2] == "serve":
        os.execv(sys.executable, [sys.executable, "-m", "harness.fakes", *arguments[2:]])
    sys.exit(bench_serve(how, arguments[4:]))


def bench_serve(how: str, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    for name in ("base-url", "model", "served-model-name", "tokenizer", "dataset-path", "result-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--result-filename", required=True)
    parser.add_argument("--custom-output-len", type=int, required=True)
    parser.add_argument("--trust-remote-code", action="store_true", required=True)
    given, _ = parser.parse_known_args(arguments)
    sys.stdout.write(f"Namespace({', '.join(f'{name}={value!r}' for name, value in vars(given).items())})\n")
    if how == "asserts":
        sys.stderr.write(ASSERTS)
        return 1
    if how == "hangs":
        signal.pause()
    if how == "writes-nothing":
        return 0
    rows = [json.loads(line) for line in Path(given.dataset_path).read_text("utf-8").splitlines()]
    count = tokenizer(Path(given.tokenizer))
    lengths = [len(count(row["prompt"]).input_ids) for row in rows]
    told = ours.measure(
        given.base_url, given.served_model_name, 1, [row["prompt"] for row in rows], given.custom_output_len
    )["requests"]
    result = {
        "completed": len(told),
        "input_lens": [n + 1 for n in lengths] if how == "counts-others" else lengths,
        "output_lens": [r["tokens"] for r in told],
        "ttfts": [r["whole_ms"] / 1e3 for r in told],
        "itls": [[1 / r["rate"]] * (r["tokens"] - 1) for r in told],
        "errors": ["" for _ in told],
    }
    (Path(given.result_dir) / given.result_filename).write_text(json.dumps(result), "utf-8")
    return 0


def tokenizer(folder: Path) -> Any:
    """As transformers finds it: a module of the folder and a class in it."""
    slow, _fast = json.loads((folder / "tokenizer_config.json").read_bytes())["auto_map"]["AutoTokenizer"]
    module, _, name = slow.partition(".")
    sys.path.insert(0, str(folder))
    return getattr(__import__(module), name).from_pretrained(str(folder))


ASSERTS = """\
Traceback (most recent call last):
  File "vllm/entrypoints/cli/main.py", line 82, in main
    args.dispatch_function(args)
  File "vllm/benchmarks/serve.py", line 1900, in main
    return asyncio.run(main_async(args))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "vllm/benchmarks/serve.py", line 2039, in main_async
    assert tokenizer is not None, "Tokenizer must be initialized before loading dataset"
           ^^^^^^^^^^^^^^^^^^^^^
AssertionError: Tokenizer must be initialized before loading dataset
nanobind: leaked 3 functions!
 - leaked function ""
 - ... skipped remainder
nanobind: this is likely caused by a reference counting issue in the binding code.
See https://nanobind.readthedocs.io/en/latest/refleaks.html
"""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
