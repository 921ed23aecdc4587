"""Bad input, generated: whatever it is, it ends in one line."""
