"""What a data set says of memory by itself, without any annotation."""
