"""The run folder: configuration, weights, states and metrics."""
