"""The folder a data set is stored in."""
