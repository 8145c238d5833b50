"""One run from a prepared corpus to a scored model, and groups of runs."""
