"""Evidence on a pull request: one comment per profile, and a status on the commit that was measured."""
