"""Servers in containers, on the Docker engine of this host. `engine` alone touches the SDK."""
