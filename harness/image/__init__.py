"""From a lock to an image that holds what the lock says, and the proof that it does."""
