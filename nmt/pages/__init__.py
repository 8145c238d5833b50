"""HTML pages and text from templates, with charts."""
