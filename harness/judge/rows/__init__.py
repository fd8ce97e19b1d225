"""Rows of the verdict, one module per subject; each is a pure function of the case."""
