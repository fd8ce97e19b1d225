"""A session before and while it runs: plan, command lines, host, progress."""
