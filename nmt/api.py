"""The Python API, whose names are those of the package `nmt`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from nmt.translation.request import Request, Translation

if TYPE_CHECKING:
    from nmt.trained_model import TrainedModel
    from nmt.translation.translator import Translator

# Each search has weights of its own.
_MAX_TRANSLATORS = 2


class Model:
    """A trained model that translates plain text; made by `load`."""

    def __init__(self, trained_model: "TrainedModel", folder: Path, engine: str = "torch") -> None:
        self._model = trained_model
        self._folder = folder
        self._engine = engine
        self._translator = lru_cache(_MAX_TRANSLATORS)(self._make_translator)
        self._translator(1)

    @property
    def direction(self) -> str:
        """Codes of source and target language, such as `en-de`."""
        return self._model.config.direction

    @overload
    def translate(
        self,
        texts: Sequence[str],
        details: Literal[False] = False,
        num_best: int = 1,
        glossary: str | Path | None = None,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        details: Literal[True],
        num_best: int = 1,
        glossary: str | Path | None = None,
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        texts: Sequence[str],
        details: bool = False,
        num_best: int = 1,
        glossary: str | Path | None = None,
    ) -> list[str] | list[list[Translation]]:
        """Translate texts of one sentence each, with the model's own search settings.

        Args:
            texts: a list of texts; an empty text has an empty translation.
            details: whether to return scores and alignments.
            num_best: with `details`, the largest number of translations per text; a number above
                the model's beam size enlarges the beam.
            glossary: a TSV, CSV or TBX file of terms to be used.

        Returns:
            One string per text; with `details` a list of up to `num_best` translations per text,
            best first.

        Raises:
            TypeError: `texts` is a single string.
            ValueError: `num_best` is below 1.
            UserError: `details` is True, and the model has no attention to align words with; or the
                glossary has no terms of these languages.
        """
        if isinstance(texts, str):
            raise TypeError("translate() takes a list of texts; write translate([text])")
        if num_best < 1:
            raise ValueError(f"num_best={num_best} is below 1")
        # Imported here, because torch takes two seconds to import.
        from nmt.translation.alignment import Aligner  # noqa: PLC0415
        from nmt.translation.confidence import confidence_of  # noqa: PLC0415
        from nmt.translation.pipeline import Pipeline  # noqa: PLC0415

        aligner = Aligner(self._model) if details else None
        confidence = confidence_of(self._folder, self._model) if details else None
        translator = self._translator(num_best if details else 1)
        if details:
            translator = translator.scoring()
        if glossary is not None:
            from nmt.translation.glossary import open_glossary  # noqa: PLC0415

            terms = open_glossary(Path(glossary), [self._model], self._folder)
            translator = translator.with_glossary(terms)
        pipeline = Pipeline(translator, aligner=aligner, confidence=confidence)
        found = pipeline.translate(list(map(Request, texts)))
        return found if details else [best.text for best, *_ in found]

    def _make_translator(self, num_best: int) -> "Translator":
        """Make a translator, which prepares the weights at its first search."""
        from nmt import config  # noqa: PLC0415
        from nmt.exchange.engines import open_engine  # noqa: PLC0415
        from nmt.translation.translator import Translator  # noqa: PLC0415

        own = self._model.config.decoding
        search = replace(own, num_best=num_best, beam_size=max(num_best, own.beam_size))
        engine = config.EngineName(self._engine)
        opened = open_engine(engine, "", self._model, search, folder=self._folder)
        return Translator(self._model, search, opened)


def load(folder: str | Path, device: str | None = None, engine: str = "torch") -> Model:
    """Load a trained model.

    Args:
        folder: a model folder, or a run folder that has one.
        device: such as `cpu` or `cuda:1`; the default is the first GPU, or the CPU without one.
        engine: program that searches; see `engine=` of `nmt translate`.

    Raises:
        UserError: the folder is not a model folder, or is damaged.
    """
    import torch  # noqa: PLC0415

    from nmt.trained_model import load_trained_model, model_folder  # noqa: PLC0415

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    folder = model_folder(Path(folder))
    return Model(load_trained_model(folder, torch.device(device)), folder, engine)
