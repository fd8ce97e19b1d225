"""Is a bundle what it says? Checked without a GPU, a network or a server, from its files alone."""
