"""What is asked of a server: prompts, streams, passes, counts."""
