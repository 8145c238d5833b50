"""A synchronous grammar of everyday English with German and French."""
