"""The one exception that speaks to the user."""

_LONGEST_END = 500


class UserError(Exception):
    """Something the user can mend: the message names the file, line or key, the value and the mend.

    The commands print the message without a traceback and exit with status 2.
    """


def one_line(message: object) -> str:
    """A message that quotes a stranger's file, as one line that is harmless to a terminal."""
    text = "".join(
        character
        if character.isprintable()
        else " "
        if character.isspace()
        else character.encode("unicode_escape").decode("ascii")
        for character in str(message)
    )
    # The file stands at the front, the mend at the end.
    is_short = len(text) <= 2 * _LONGEST_END
    return text if is_short else f"{text[:_LONGEST_END]} … {text[-_LONGEST_END:]}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its kind where it says nothing."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)
