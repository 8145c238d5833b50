"""From sources to what is told of each: the translator and what stands around it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.decoding.alignment import Aligner, pharaoh
from nmt.decoding.formats import Answer
from nmt.decoding.translator import Translator

Progress = Callable[[int], None]


class Pipeline:
    """Answers sources.

    Args:
        translator: what translates.
        aligner: what aligns, where alignments are asked for.
        warn: told of what cannot be done.
    """

    def __init__(
        self,
        translator: Translator,
        aligner: Aligner | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._translator = translator
        self._aligner = aligner
        self._warn = warn

    def answers(
        self, sources: Sequence[str], progress: Progress | None = None, first_line: int = 1
    ) -> list[Answer]:
        """One answer a source, in order.

        Args:
            sources: one sentence each.
            progress: called with the number of sources just done.
            first_line: number of the first one in its file, for warnings.
        """
        found = self._translator.translate(sources, progress, first_line)
        answers = [Answer(translations) for translations in found]
        return answers if self._aligner is None else self._aligned(sources, answers, first_line)

    def _aligned(
        self, sources: Sequence[str], answers: list[Answer], first_line: int
    ) -> list[Answer]:
        assert self._aligner is not None
        pairs = [
            (source, translation.text)
            for source, answer in zip(sources, answers, strict=True)
            for translation in answer.translations
        ]
        links = iter(self._aligner.links([s for s, _ in pairs], [t for _, t in pairs]))
        aligned = []
        for line, answer in enumerate(answers, start=first_line):
            some = [next(links) for _ in answer.translations]
            if self._warn and None in some:
                self._warn(f"line {line}: too long for the model to be aligned as a whole")
            alignments = [None if each is None else pharaoh(each) for each in some]
            aligned.append(replace(answer, alignments=alignments))
        return aligned
