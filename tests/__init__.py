"""Tests of the harness; the folders mirror `harness/`."""
