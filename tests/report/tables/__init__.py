"""Tables for people's own plots."""
