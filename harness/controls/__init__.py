"""Negative controls: candidates that are known to be worse, and whether the harness sees and names each of them."""
