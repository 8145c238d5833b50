"""Metrics of translations, significance tests, known test sets, phenomena, terms."""
