"""Programs for those who work on this project; users of it need none of them."""
