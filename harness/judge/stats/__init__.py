"""The arithmetic of a verdict: pure, and over arrays, so that a simulation runs what the judge runs."""
