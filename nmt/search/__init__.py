"""Beam search and sampling over a step function, without imports of `nmt.model`."""
