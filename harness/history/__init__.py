"""What this host remembers of its sessions: an index that is made from bundles and can be made again at any time."""
