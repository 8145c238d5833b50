"""Choice of the program that searches translations."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, EngineName
from nmt.trained_model import TrainedModel
from nmt.translation.engine import Engine
from nmt.translation.torch_engine import TorchEngine


def open_engine(
    engine: EngineName,
    compute_type: str,
    model: TrainedModel,
    config: DecodingConfig,
    others: Sequence[TrainedModel] = (),
) -> Engine:
    """Make an engine.

    `compute_type` is the type in which CTranslate2 computes; empty means float32. `others` are
    further models of an ensemble.

    Raises:
        UserError: the engine does not support these arguments.
    """
    if engine is EngineName.torch:
        if compute_type:
            raise UserError(
                f"compute_type={compute_type} has no effect with engine=torch; use"
                " engine=ctranslate2, or remove compute_type"
            )
        return TorchEngine(model, config, others)
    if others:
        raise UserError("engine=ctranslate2 does not support ensembles; use engine=torch")
    # Imported here, because CTranslate2 is slow to import.
    from nmt.exchange.ctranslate2 import convert  # noqa: PLC0415
    from nmt.translation.ctranslate2_engine import CTranslate2Engine  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        convert(model, Path(folder))
        return CTranslate2Engine(model, config, Path(folder), compute_type or "float32")
