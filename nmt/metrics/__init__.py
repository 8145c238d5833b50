"""Metrics of translations and trees, significance tests, known test sets, phenomena, terms."""
