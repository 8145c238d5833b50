"""Errors, files, locks and the machine, for all other packages."""
