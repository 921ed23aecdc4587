"""Pictures of observations, of attention and of what a policy recalls."""
