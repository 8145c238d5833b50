"""The formats of export, by name."""

from enum import StrEnum

from nmt.base.errors import UserError
from nmt.base.system import require_package
from nmt.exchange.exporter import Exporter

Format = StrEnum("Format", "huggingface onnx ctranslate2 argos marian")


def open_exporter(name: Format, compute_type: str) -> Exporter:
    """Return the exporter of a format.

    Args:
        name: the format.
        compute_type: how weights are stored, for the formats that have a choice; empty for float32.

    Raises:
        UserError: the format has no such choice, or needs a package that is not installed.
    """
    # Each is imported where it is needed, because it is slow to import, or an optional package.
    if name in (Format.ctranslate2, Format.argos):
        from nmt.exchange.argos import ArgosExporter  # noqa: PLC0415
        from nmt.exchange.ctranslate2 import CTranslate2Exporter  # noqa: PLC0415

        return (CTranslate2Exporter if name is Format.ctranslate2 else ArgosExporter)(compute_type)
    if compute_type:
        raise UserError(
            f"compute_type={compute_type} has an effect with format=ctranslate2 and format=argos"
            " only; leave it out"
        )
    if name is Format.onnx:
        for package in ("onnx", "onnxruntime"):
            require_package("format=onnx", package, "exchange")
        from nmt.exchange.onnx import OnnxExporter  # noqa: PLC0415

        return OnnxExporter()
    if name is Format.marian:
        from nmt.exchange.marian import MarianExporter  # noqa: PLC0415

        return MarianExporter()
    from nmt.exchange.huggingface import HuggingFaceExporter  # noqa: PLC0415

    return HuggingFaceExporter()
