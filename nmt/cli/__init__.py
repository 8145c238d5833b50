"""The commands: one module each, thin; run them with `python -m nmt.cli.<command>`."""
