"""Data sets of other formats, in and out."""
