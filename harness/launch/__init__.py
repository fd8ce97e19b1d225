"""One server process from start to exit: environment, readiness, stop, clean-up."""
