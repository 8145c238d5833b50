"""Text to ids and back, by sentencepiece; special ids are read from the model file."""

import bisect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import sentencepiece

from nmt.errors import UserError

JOINT_FILE = "tokenizer.model"

WORD_BEGIN = "\u2581"
"""What sentencepiece writes in place of a space, and before the first word."""


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
        UserError: the file is missing, is not a sentencepiece model, has a piece that is not
            UTF-8, or lacks a special piece.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._processor = sentencepiece.SentencePieceProcessor()
        if not path.is_file():
            raise UserError(f"{path}: no such tokenizer; its corpus or model folder is not whole")
        try:
            self._processor.Load(str(path))
            self.vocabulary_size: int = self._processor.GetPieceSize()
            self.pieces(range(self.vocabulary_size))
        # UnicodeDecodeError: a piece, or a complaint about one, that is not UTF-8.
        except (RuntimeError, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: is not a sentencepiece model: {error}") from None
        self.pad_id: int = self._processor.pad_id()
        self.unknown_id: int = self._processor.unk_id()
        self.bos_id: int = self._processor.bos_id()
        self.eos_id: int = self._processor.eos_id()
        special = {self.pad_id, self.unknown_id, self.bos_id, self.eos_id}
        if min(special) < 0 or len(special) < 4:
            raise UserError(
                f"{path}: has no padding, unknown, BOS or EOS piece of its own; train it again"
            )

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

    def ordinary_pieces(self) -> Iterator[tuple[int, str, float]]:
        """Id, text and score of each piece that spells text: neither special nor a byte.

        Of a BPE vocabulary the score says which merge comes first: the larger one.
        """
        processor = self._processor
        for i in range(self.vocabulary_size):
            if not (processor.IsControl(i) or processor.IsUnknown(i) or processor.IsByte(i)):
                yield i, processor.IdToPiece(i), processor.GetScore(i)

    def normalise(self, texts: Sequence[str]) -> list[str]:
        """Each text as its pieces spell it, every word after a `WORD_BEGIN`."""
        normalised: list[str] = self._processor.Normalize(list(texts))
        return normalised

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """For each piece of each text the number, from 0, of the word that it is a part of.

        Words are what `str.split` gives of the text itself; a piece of several belongs to the
        first that does not end before it.
        """
        found = self._processor.Encode(list(texts), return_type="offset_mapping")
        return [
            _words_at([end for _, end in each["offsets"]], text)
            for each, text in zip(found, texts, strict=True)
        ]


def _words_at(piece_ends: Sequence[int], text: str) -> list[int]:
    word_ends = [match.end() for match in re.finditer(r"\S+", text)]
    last = len(word_ends) - 1
    # White space stands at the front of its piece; a piece of it alone goes with what follows. One
    # byte of several ends where its character begins.
    return [min(last, bisect.bisect_left(word_ends, max(1, end))) for end in piece_ends]
