"""Conversion of trained models to and from other formats, each verified against torch."""
