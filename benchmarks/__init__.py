"""Throughput, measured as ratios: each script prints a table and writes a small dated file."""
