"""Experiments: every table and figure of the paper from recipes, as records that machines write and people read."""
