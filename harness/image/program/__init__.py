"""What runs inside the image while it is built: standard library only, Python 3.8 or newer, no import from outside."""
