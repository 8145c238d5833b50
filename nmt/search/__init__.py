"""Beam search and sampling over a step function; imports no model."""
