"""Whole sessions through the command line, against the fake server and against real vLLM."""
