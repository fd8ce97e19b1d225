"""The bundle: where everything that was seen is kept, and how it is read again."""
