"""Packages for Argos Translate and LibreTranslate.

A package is a zip file with `metadata.json`, one sentencepiece model and a folder `model` in the
format of CTranslate2. https://github.com/argosopentech/argos-train describes it.
"""

import json
import tempfile
import zipfile
from pathlib import Path

from nmt.base.errors import UserError
from nmt.exchange.ctranslate2 import CTranslate2Exporter, CTranslate2Runtime
from nmt.exchange.exporter import usage_of
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel

_VERSION = "1.0"
_TOKENIZER = "sentencepiece.model"
_MODEL = "model"


class ArgosRuntime(CTranslate2Runtime):
    """The model and the tokenizer of a package, run by CTranslate2; see `Runtime`."""

    def __init__(self, model: TrainedModel, package: Path, tolerance: float) -> None:
        self._temporary = tempfile.TemporaryDirectory()
        with zipfile.ZipFile(package) as archive:
            archive.extractall(self._temporary.name)
        root = Path(self._temporary.name, package.stem)
        tokenizer = Tokenizer(root / _TOKENIZER)
        packaged = TrainedModel(model.config, model.network, tokenizer, tokenizer)
        super().__init__(packaged, root / _MODEL, tolerance)


class ArgosExporter:
    """Writes a package with the extension `.argosmodel`; see `Exporter`."""

    def __init__(self, compute_type: str = "") -> None:
        self._ctranslate2 = CTranslate2Exporter(compute_type)

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if a package cannot contain the model."""
        self._ctranslate2.check(model)
        # One sentencepiece model encodes sources and decodes translations.
        if model.source_tokenizer.all_pieces() != model.target_tokenizer.all_pieces():
            raise UserError(
                "tokenizer.joint=false: a package of Argos Translate has one vocabulary for both"
                " languages; train with tokenizer.joint=true, or use format=ctranslate2"
            )

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write the package into an empty folder."""
        config, name = model.config, package_name(model)
        metadata = {
            "package_version": _VERSION,
            "argos_version": "1.5",
            "from_code": _code(config.source_language),
            "from_name": config.source_language,
            "to_code": _code(config.target_language),
            "to_name": config.target_language,
            "type": "translate",
        }
        with (
            tempfile.TemporaryDirectory(dir=folder) as converted,
            zipfile.ZipFile(folder / f"{name}.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            self._ctranslate2.write(model, Path(converted))
            archive.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=4))
            archive.write(model.source_tokenizer.path, f"{name}/{_TOKENIZER}")
            for path in sorted(Path(converted).iterdir()):
                archive.write(path, f"{name}/{_MODEL}/{path.name}")

    def open(self, model: TrainedModel, folder: Path) -> ArgosRuntime:
        """Open the model and the tokenizer of a package."""
        package = folder / f"{package_name(model)}.argosmodel"
        return ArgosRuntime(model, package, self._ctranslate2.tolerance)

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        languages = model.config.source_language, model.config.target_language
        source, target = map(_code, languages)
        return usage_of("argos", package=package_name(model), source=source, target=target)


def package_name(model: TrainedModel) -> str:
    """Return the name of the package, without its extension."""
    source, target = model.config.source_language, model.config.target_language
    return f"translate-{_code(source)}_{_code(target)}-{_VERSION.replace('.', '_')}"


def _code(language: str) -> str:
    """Return a language code as Argos Translate knows it: `pt_BR` → `pb`, `zh_Hant` → `zt`."""
    return {"pt_BR": "pb", "zh_Hant": "zt", "zh_TW": "zt"}.get(language, language.partition("_")[0])
