"""The lesson: its code, pictures and exercises; `python -m docs.lesson` runs them."""
