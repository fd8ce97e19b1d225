"""Pull requests to vLLM with faults planted in them, for a harness that must find them on a real GPU."""
