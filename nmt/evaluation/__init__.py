"""From translations to scores."""
