"""From a bundle to a verdict: pure, offline, the same bytes twice."""
