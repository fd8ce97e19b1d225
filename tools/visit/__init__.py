"""One visit to a machine with GPUs that is lent for minutes and starts bare; see `tools/gpu_session.py`."""
