"""Trackers: destinations of the metrics, translations, pictures and results of a run."""
