"""The export and import formats.

The modules of formats are imported where they are used, because some of them are slow to import or
need optional packages.
"""

from pathlib import Path

from nmt.base.errors import UserError
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


# Other models that people have: the files of each (after `!`, files that it lacks), its name, and
# what works instead.
_OTHERS = (
    (
        "config.yaml weights.safetensors",
        "already a model folder of this program",
        "use it with model= (for make: MODEL=)",
    ),
    (
        "adapter_config.json !config.json",
        "an adapter (LoRA) without its model",
        "load both with peft, save the result of merge_and_unload() and the tokenizer in a folder,"
        " and import that",
    ),
    (
        "*.bpe !source.spm",
        "a release whose text is split by subword-nmt (BPE)",
        "take a release with sentencepiece models (source.spm), whose name has spm",
    ),
    (
        "model.bin *vocabulary* !*.safetensors",
        "a model of CTranslate2",
        "import the model from which it was converted",
    ),
    (
        "onnx/*.onnx !*.safetensors !pytorch_model*",
        "a model of ONNX",
        "import the model from which it was exported",
    ),
    ("*.argosmodel", "a package of Argos Translate", "import the model that it was made from"),
    ("dict.*.txt !*.spm", "a model of fairseq", "import a model of OPUS-MT for its languages"),
    ("*.gguf", "a model of llama.cpp", "import a model of OPUS-MT for its languages"),
    ("*.intgemm*.bin", "a model of Bergamot in 8 bits", "import the .npz that it was made from"),
)


def open_importer(folder: Path, name: str) -> Importer:
    """Return the importer of the format of a folder.

    Raises:
        UserError: no format has files as in this folder; the message calls the folder `name`.
    """
    for patterns, what, fix in _OTHERS:
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
