"""Qualification harness for vLLM forks and kernel patches."""

__version__ = "0.1.0"
