"""Source checks: a command over both arms' source, and what is new, fixed, pre-existing or vanished between them."""
