"""Packages for Argos Translate and LibreTranslate.

A package is a zip file with `metadata.json`, one sentencepiece model and a folder `model` in the
format of CTranslate2. https://github.com/argosopentech/argos-train describes it.
"""

import json
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nmt.base.errors import UserError
from nmt.exchange.ctranslate2 import CTranslate2Exporter
from nmt.exchange.interface import Runtime, usage_of
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel

_VERSION = "1.0"
_TOKENIZER = "sentencepiece.model"
_MODEL = "model"


class ArgosExporter(CTranslate2Exporter):
    """Writes a package with the extension `.argosmodel`; see `Exporter`."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if a package cannot contain the model."""
        super().check(model)
        # One sentencepiece model encodes sources and decodes translations.
        if model.source_tokenizer.all_pieces() != model.target_tokenizer.all_pieces():
            raise UserError(
                "tokenizer.joint=false: a package of Argos Translate has one vocabulary for both"
                " languages; train with tokenizer.joint=true, or use format=ctranslate2"
            )

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write the package into an empty folder."""
        config, name = model.config, package_name(model)
        source, target = _codes(model)
        metadata = {
            "package_version": _VERSION,
            "argos_version": "1.5",
            "from_code": source,
            "from_name": config.source_language,
            "to_code": target,
            "to_name": config.target_language,
            "type": "translate",
        }
        with (
            tempfile.TemporaryDirectory(dir=folder) as converted,
            zipfile.ZipFile(folder / f"{name}.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            self.write(model, Path(converted))
            archive.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=4))
            archive.write(model.source_tokenizer.path, f"{name}/{_TOKENIZER}")
            for path in sorted(Path(converted).iterdir()):
                archive.write(path, f"{name}/{_MODEL}/{path.name}")

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open the model and the tokenizer of a package."""
        name, temporary = package_name(model), tempfile.TemporaryDirectory()
        with zipfile.ZipFile(folder / f"{name}.argosmodel") as archive:
            archive.extractall(temporary.name)
        root = Path(temporary.name, name)
        tokenizer = Tokenizer(root / _TOKENIZER)
        packaged = replace(model, source_tokenizer=tokenizer, target_tokenizer=tokenizer)
        return [self.runtime(packaged, root / _MODEL, temporary)]

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        source, target = _codes(model)
        return usage_of("argos", package=package_name(model), source=source, target=target)


def package_name(model: TrainedModel) -> str:
    """Return the name of the package, without its extension."""
    return f"translate-{'_'.join(_codes(model))}-{_VERSION.replace('.', '_')}"


def _codes(model: TrainedModel) -> list[str]:
    """Return the codes of Argos Translate for both languages: `pt_BR` → `pb`, `zh_Hant` → `zt`."""
    special = {"pt_BR": "pb", "zh_Hant": "zt", "zh_TW": "zt"}
    return [special.get(code, code.partition("_")[0]) for code in model.config.languages]
