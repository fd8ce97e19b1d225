"""Profiles, stacks, flags and options."""
