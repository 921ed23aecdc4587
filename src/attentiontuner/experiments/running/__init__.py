"""Running cells to their records, on one machine or many."""
