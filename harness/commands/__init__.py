"""The commands of `qualify`, in groups. Each imports what it needs when it is run: --help stays instant."""
