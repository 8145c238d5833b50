"""From sources to what is told of each: the translator and what stands around it."""

from collections.abc import Callable, Sequence

from nmt.decoding.formats import Answer
from nmt.decoding.translator import Translator


class Pipeline:
    """Answers sources.

    Args:
        translator: what translates.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def answers(
        self,
        sources: Sequence[str],
        progress: Callable[[int], None] | None = None,
        first_line: int = 1,
    ) -> list[Answer]:
        """One answer a source, in order.

        Args:
            sources: one sentence each.
            progress: called with the number of sources just done.
            first_line: number of the first one in its file, for warnings.
        """
        found = self._translator.translate(sources, progress, first_line)
        return [Answer(translations) for translations in found]
