"""Errors, atomic files, locks and resumable outputs."""
