"""One run, from text to a scored model, and groups of runs."""
