"""Simulations and measurements of the harness itself; no part of the installed program."""
