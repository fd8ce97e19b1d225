"""One server process: start, log, readiness, stop, clean-up, and what it finds on the host."""
