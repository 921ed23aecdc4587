"""Training: from demonstrations in a store to a run folder that can be killed at any moment and goes on."""
