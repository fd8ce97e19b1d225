"""Tests of the fake vLLM server."""
