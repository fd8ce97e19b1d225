"""What is found as private, what stays, and what takes its place."""
