"""What every room may use: errors, files, seeds, progress, wording, versions, processes and signals."""
