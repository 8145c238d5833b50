"""From raw text to a corpus."""
