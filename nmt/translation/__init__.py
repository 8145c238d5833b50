"""From texts to translations."""
