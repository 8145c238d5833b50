"""The export and import formats.

The modules of formats are imported where they are used, because some of them are slow to import or
need optional packages.
"""

from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import read_lines
from nmt.base.system import require_package
from nmt.config import ExportFormat
from nmt.exchange.interface import Exporter, Importer


def open_exporter(name: ExportFormat, compute_type: str) -> Exporter:
    """Return the exporter of a format.

    Args:
        name: the format.
        compute_type: type of the stored weights in ctranslate2 and argos; empty means float32.

    Raises:
        UserError: the format has no such `compute_type`, or a package that it needs is missing.
    """
    if name in (ExportFormat.ctranslate2, ExportFormat.argos):
        from nmt.exchange.argos import ArgosExporter  # noqa: PLC0415
        from nmt.exchange.ctranslate2 import CTranslate2Exporter  # noqa: PLC0415

        return (CTranslate2Exporter if name is ExportFormat.ctranslate2 else ArgosExporter)(
            compute_type
        )
    if compute_type:
        raise UserError(
            f"compute_type={compute_type} has an effect with format=ctranslate2 and format=argos"
            " only; remove it"
        )
    if name is ExportFormat.onnx:
        for package in ("onnx", "onnxruntime"):
            require_package("format=onnx", package, "exchange")
        from nmt.exchange.onnx import OnnxExporter  # noqa: PLC0415

        return OnnxExporter()
    if name is ExportFormat.marian:
        from nmt.exchange.marian import MarianExporter  # noqa: PLC0415

        return MarianExporter()
    from nmt.exchange.huggingface import HuggingFaceExporter  # noqa: PLC0415

    return HuggingFaceExporter()


_OTHERS = Path(__file__).with_name("other_models.tsv")
"""Other models that people have: the files of each (after `!`, files that it lacks), its name, and
what works instead."""


def open_importer(folder: Path, name: str) -> Importer:
    """Return the importer of the format of a folder.

    Raises:
        UserError: no format has files as in this folder; the message calls the folder `name`.
    """
    for patterns, what, fix in (line.split("\t") for line in read_lines(_OTHERS)):
        if all(any(folder.glob(p.lstrip("!"))) != p.startswith("!") for p in patterns.split()):
            raise UserError(f"{name}: is {what}, which cannot be imported; {fix}")
    from nmt.exchange.import_huggingface import HuggingFaceImporter  # noqa: PLC0415
    from nmt.exchange.import_marian import MarianImporter  # noqa: PLC0415

    importers: tuple[Importer, ...] = (HuggingFaceImporter(), MarianImporter())
    for importer in importers:
        if importer.can_read(folder):
            return importer
    raise UserError(
        f"{name}: is not a model of Hugging Face or Marian: it has neither config.json nor"
        " weights (.npz); name the folder that has them"
    )
