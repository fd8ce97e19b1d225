"""One session a night against an anchor, its summary for people who sleep, and what is kept of it."""
