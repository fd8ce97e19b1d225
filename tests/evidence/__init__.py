"""Bundles as they are written, sealed and read back."""
