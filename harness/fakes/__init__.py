"""Servers with faults on demand, for what the real thing will not do when asked."""
