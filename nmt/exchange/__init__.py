"""Export to other formats and import from them; both compare the result with the original."""
