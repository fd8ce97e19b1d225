"""Models whose every answer is known."""
