"""A profile, two arms and one host: the plan, the pytest plugin and the course of a launch."""
