"""HTML pages from templates, with charts."""
