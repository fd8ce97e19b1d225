"""From a bundle and its verdict to what people read."""
