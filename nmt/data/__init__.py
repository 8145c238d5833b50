"""From prepared text to batches."""
