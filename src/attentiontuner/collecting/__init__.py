"""Collecting demonstrations: one episode, then shards of them in several processes."""
