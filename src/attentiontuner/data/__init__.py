"""From demonstrations to what the model eats: tokens and packed batches. Torch starts here."""
