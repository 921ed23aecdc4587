"""Killed at every single change of a file: what goes on ends as if nothing had happened."""
