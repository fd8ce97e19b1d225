"""What the tests of the docker launcher stand on: an engine, a small image, a registry on the loopback address."""
