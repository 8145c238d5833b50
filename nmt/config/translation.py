"""Choices of commands that use a model. They are here so that their help imports no model."""

from enum import StrEnum

EngineName = StrEnum("EngineName", "torch ctranslate2 auto")
"""Program that searches; `auto` is CTranslate2 where it was seen to translate like torch."""

ExportFormat = StrEnum("ExportFormat", "huggingface onnx ctranslate2 argos marian")
"""Program or format that a model is converted for."""

TextFormat = StrEnum("TextFormat", "text jsonl tsv")
"""Format of texts, line by line."""

Utility = StrEnum("Utility", "chrf bleu")
"""Similarity of two translations in minimum Bayes risk: a sentence metric of sacrebleu."""
