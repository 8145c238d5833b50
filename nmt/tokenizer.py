"""Text to ids and back, by sentencepiece; special ids are read from the model file."""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from nmt.errors import UserError

JOINT_FILE = "tokenizer.model"


def tokenizer_files(joint: bool, source_language: str, target_language: str) -> tuple[str, str]:
    """File names of the source's and the target's tokenizer in a corpus or model folder."""
    if joint:
        return JOINT_FILE, JOINT_FILE
    return f"tokenizer.{source_language}.model", f"tokenizer.{target_language}.model"


class Tokenizer:
    """A sentencepiece model.

    Args:
        path: the model file.

    Raises:
        UserError: the file is missing, is not a sentencepiece model, or lacks a special piece.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._processor = sentencepiece.SentencePieceProcessor()
        if not path.is_file():
            raise UserError(f"{path}: no such tokenizer; its corpus or model folder is not whole")
        try:
            self._processor.Load(str(path))
        except (RuntimeError, OSError) as error:
            raise UserError(f"{path}: is not a sentencepiece model: {error}") from None
        self.vocabulary_size: int = self._processor.GetPieceSize()
        self.pad_id: int = self._processor.pad_id()
        self.unknown_id: int = self._processor.unk_id()
        self.bos_id: int = self._processor.bos_id()
        self.eos_id: int = self._processor.eos_id()
        if min(self.pad_id, self.unknown_id, self.bos_id, self.eos_id) < 0:
            raise UserError(f"{path}: has no padding, unknown, BOS or EOS piece; train it again")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS."""
        ids: list[list[int]] = self._processor.EncodeAsIds(list(texts))
        return ids

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of ids; special ids give nothing."""
        special = {self.pad_id, self.bos_id, self.eos_id}
        kept = [[int(i) for i in ids if i not in special] for ids in sequences]
        texts: list[str] = self._processor.DecodeIds(kept)
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id, as sentencepiece writes it."""
        return [self._processor.IdToPiece(int(i)) for i in ids]
