"""Documents, the code of the lesson, and what `make docs` makes of them."""
