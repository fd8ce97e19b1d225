"""From a stack to its lock: pull request heads resolved, composed onto the base, written down."""
