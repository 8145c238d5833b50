"""Neural machine translation: train translation models, and translate with them.

Examples:
    >>> import nmt
    >>> model = nmt.load("outputs/latest/model")
    >>> model.direction
    'en-de'
    >>> model.translate(["The child sees the cat.", "She sleeps."])  # doctest: +ELLIPSIS
    ['...', '...']
    >>> [best, second] = model.translate(["She sleeps."], details=True, num_best=2)[0]
    >>> best.score >= second.score
    True
    >>> best.alignment  # indices of (source word, target word)  # doctest: +ELLIPSIS
    [(..., 0)...]
"""

TYPE_CHECKING = False  # importing `typing` takes time, in which Ctrl-C would be a traceback
if TYPE_CHECKING:
    from nmt.api import Model, load
    from nmt.translation.request import Translation

__all__ = ["Model", "Translation", "load"]


def __getattr__(name: str) -> object:
    """Import the API when it is first used, and not for commands."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nmt import api  # noqa: PLC0415

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
