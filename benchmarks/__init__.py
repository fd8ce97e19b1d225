"""Measurements of the harness itself, run by hand."""
