"""What searches: torch, or CTranslate2 where `engine=ctranslate2` is given."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from nmt.config import DecodingConfig
from nmt.decoding.engine import Engine
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import UserError
from nmt.trained_model import TrainedModel

USAGE_LINES = """\
  engine=NAME     torch or ctranslate2: the same weights, searched by CTranslate2 (default: torch)
  compute_type=…  of engine=ctranslate2: float32, int8 or what else it has on this machine
                  (default: float32)"""


class EngineName(Enum):
    """What searches."""

    torch = "torch"
    ctranslate2 = "ctranslate2"


def open_engine(
    name: EngineName,
    compute_type: str,
    model: TrainedModel,
    config: DecodingConfig,
    folder: Path,
    others: Sequence[TrainedModel] = (),
) -> Engine:
    """The engine that was asked for.

    Args:
        name: which one.
        compute_type: its arithmetic; "" is float32.
        model: what it searches with.
        config: the search.
        folder: where the model was loaded from.
        others: models that decode together with it.

    Raises:
        UserError: it has no such arithmetic, or cannot search with these models.
    """
    if name is EngineName.torch:
        if compute_type:
            raise UserError(f"compute_type={compute_type} goes with engine=ctranslate2")
        return TorchEngine(model, config, others)
    if others:
        raise UserError("engine=ctranslate2 searches with one model; take engine=torch")
    # Imported here: whoever searches by torch does not wait for it.
    from nmt.decoding.ctranslate2_engine import CTranslate2Engine  # noqa: PLC0415

    return CTranslate2Engine(model, config, folder, compute_type or "float32")


def engine_note(name: EngineName, compute_type: str) -> str:
    """What scores say of the engine; "" for torch."""
    return "" if name is EngineName.torch else f"{name.value} {compute_type or 'float32'}"
