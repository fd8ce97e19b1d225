"""From stacks to locks, on real git repositories."""
