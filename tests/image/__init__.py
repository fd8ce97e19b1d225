"""Images: what they are, and what runs from them."""
