"""Choice of the program that searches translations."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import eq
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, missing
from nmt.base.files import file_inside, read_record, write_json
from nmt.base.layout import ENGINES_FILE
from nmt.base.log import print_line
from nmt.base.progress import progress_bar
from nmt.config import DecodingConfig, EngineName, search_keys
from nmt.search.request import Request
from nmt.trained_model import TrainedModel
from nmt.translation.engine import BatchResults, Engine
from nmt.translation.torch_engine import TorchEngine
from nmt.translation.translator import Translator

_MIN_COMPARED = 1_000
"""Number of sentences after which `engine=auto` trusts that both engines translate alike."""


@dataclass(frozen=True)
class _Comparison:
    """Item of `engines.json`.

    Attributes:
        decoding: search settings that can change a translation.
        num_compared: number of sentences that torch and CTranslate2 in float32 translated.
        num_equal: number of their translations that were equal.
    """

    decoding: dict[str, Any]
    num_compared: int
    num_equal: int

    @property
    def is_enough(self) -> bool:
        """Whether CTranslate2 may replace torch."""
        return self.num_equal == self.num_compared >= _MIN_COMPARED

    def __str__(self) -> str:
        return (
            f"CTranslate2 found {self.num_equal:,} of {self.num_compared:,} translations of torch;"
            f" engine=auto uses it if it finds all of at least {_MIN_COMPARED:,}"
        )


class _AutomaticEngine(Engine):
    """Searches with CTranslate2 or, if a translation has constraints, with torch."""

    def __init__(
        self, model: TrainedModel, config: DecodingConfig, torch_engine: Engine, fast: Engine
    ) -> None:
        super().__init__(config, model)
        self._torch, self._fast = torch_engine, fast
        self.note = fast.note

    @property
    def scoring(self) -> Engine:
        return self._torch

    def check(self, request: Request) -> None:
        self._torch.check(request)

    def _search_batches(self, requests: Sequence[Request]) -> BatchResults:
        for engine, is_plain in ((self._fast, True), (self._torch, False)):
            indices = [i for i, request in enumerate(requests) if request.is_plain == is_plain]
            for batch, found in engine._search_batches([requests[i] for i in indices]):
                yield [indices[i] for i in batch], found


def open_engine(
    engine: EngineName,
    compute_type: str,
    model: TrainedModel,
    config: DecodingConfig,
    others: Sequence[TrainedModel] = (),
    folder: Path | None = None,
) -> Engine:
    """Make an engine.

    `compute_type` is the type in which CTranslate2 computes; empty means float32. `others` are
    further models of an ensemble. `folder` is the model folder, which says what `auto` may use.

    Raises:
        UserError: the engine does not support these arguments.
    """
    if engine is EngineName.ctranslate2:
        if others:
            raise UserError("engine=ctranslate2 does not support ensembles; use engine=torch")
        return _open_ctranslate2(model, config, compute_type or "float32")
    if compute_type:
        raise UserError(
            f"compute_type={compute_type} has no effect with engine={engine}; use"
            " engine=ctranslate2, or remove compute_type"
        )
    torch_engine = TorchEngine(model, config, others)
    if engine is EngineName.torch:
        return torch_engine
    reason = _reason_for_torch(model, config, others, folder)
    if not reason:
        try:
            fast = _open_ctranslate2(model, config, "float32")
            return _AutomaticEngine(model, config, torch_engine, fast)
        except ImportError as error:
            reason = missing(error)
    print_line(f"engine=auto searches with torch: {reason}")
    return torch_engine


def compare_engines(
    model: TrainedModel,
    config: DecodingConfig,
    folder: Path,
    sources: Sequence[str],
    translations: Sequence[str],
) -> None:
    """Write into a model folder how many of the translations by torch CTranslate2 finds, too."""
    if model.device.type != "cpu":
        return
    try:
        engine = _open_ctranslate2(model, config, "float32")
        with progress_bar("translating with CTranslate2", len(sources)) as advance:
            found = Translator(model, config, engine).translate(sources, advance)
        num_equal = sum(map(eq, (best.text for best, *_ in found), translations))
        comparison = _Comparison(search_keys(config), len(found), num_equal)
        others = [one for one in _comparisons(folder) if one.decoding != comparison.decoding]
        write_json(folder / ENGINES_FILE, [asdict(one) for one in (*others, comparison)])
        print_line(str(comparison))
    except (ImportError, UserError) as error:  # the scores by torch are right all the same
        reason = missing(error) if isinstance(error, ImportError) else error
        print_line(f"engine=auto: not compared with CTranslate2: {reason}")


def _reason_for_torch(
    model: TrainedModel, config: DecodingConfig, others: Sequence[TrainedModel], folder: Path | None
) -> str:
    """Return why CTranslate2 may not search; empty if it may."""
    if folder is None or others or model.device.type != "cpu":
        return "CTranslate2 replaces single models on CPUs only"
    for one in _comparisons(folder):
        if one.decoding == search_keys(config):
            return "" if one.is_enough else str(one)
    return (
        "CTranslate2 was not compared with these settings decoding.*; `nmt evaluate engine=auto`"
        " compares it"
    )


def _comparisons(folder: Path) -> list[_Comparison]:
    """Read `engines.json` of a model folder."""
    if not (folder / ENGINES_FILE).exists():
        return []
    return read_record(file_inside(folder, ENGINES_FILE), list[_Comparison])


def _open_ctranslate2(model: TrainedModel, config: DecodingConfig, compute_type: str) -> Engine:
    # Imported here, because CTranslate2 is slow to import.
    from nmt.exchange.ctranslate2 import convert  # noqa: PLC0415
    from nmt.translation.ctranslate2_engine import CTranslate2Engine  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        convert(model, Path(folder))
        return CTranslate2Engine(model, config, Path(folder), compute_type)
