"""What to run: recipes, scales and cells. Nothing here trains or reads files."""
