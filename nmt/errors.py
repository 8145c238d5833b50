"""The one exception that speaks to the user."""


class UserError(Exception):
    """Something the user can mend: the message names the file, line or key, the value and the mend.

    The commands print the message without a traceback and exit with status 2.
    """
