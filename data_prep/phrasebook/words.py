"""Short word lists."""


def split_words(text: str) -> tuple[str, ...]:
    """The words of a short list that is written as one string."""
    return tuple(text.split())
