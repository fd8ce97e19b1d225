"""Profiles, stacks, settings: read, merged with their origins, validated."""
