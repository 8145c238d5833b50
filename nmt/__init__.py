"""Corpus to trained model to translations to scores."""
