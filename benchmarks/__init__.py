"""Simulations and measurements that docs/ shows; no part of the installed program."""
