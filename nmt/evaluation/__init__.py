"""Evaluation of models: scores, comparisons, tables and reports."""
