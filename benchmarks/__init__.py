"""Benchmarks of speed, memory, reliability and quality; most write a dated JSON file."""
