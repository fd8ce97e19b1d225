"""What must not leave the host: how it is found, and what is put in its place."""
