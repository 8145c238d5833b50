"""Conversion between text and ids with sentencepiece."""

import bisect
import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import regex
import sentencepiece

from nmt.base.errors import UserError, one_line

JOINT_FILE = "tokenizer.model"

RULES_FILE = "normalisation.tsv"
"""Name of the file with the normalisation rules for the training of a tokenizer. sentencepiece
writes this name into the trained model."""

_MARKS = regex.compile(r"\p{M}{32,}")

_MIN_ITEMS = 100
"""Number of texts from which it takes less time to convert them than to start threads."""

WORD_BEGIN = "\u2581"
"""Character that sentencepiece puts in place of a space, and before the first word."""


def tokenizer_files(joint: bool, source_language: str, target_language: str) -> tuple[str, str]:
    """Return the file names of the source and target tokenizer in a corpus or model folder."""
    if joint:
        return JOINT_FILE, JOINT_FILE
    return f"tokenizer.{source_language}.model", f"tokenizer.{target_language}.model"


def completed_model(path: Path) -> bytes:
    """Read a sentencepiece model; add padding and BOS at the end if it lacks them.

    By default, sentencepiece trains models without padding, and other programs use models without
    BOS. If a piece has the name of the missing one, that piece is used. The other ids stay.

    Raises:
        UserError: the file is not a sentencepiece model.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - for own models only
    from sentencepiece import sentencepiece_model_pb2 as proto  # noqa: PLC0415

    model, content = proto.ModelProto(), path.read_bytes()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise UserError(f"{path}: is not a sentencepiece model") from None
    spec, names = model.trainer_spec, [piece.piece for piece in model.pieces]
    missing = [kind for kind in ("pad", "bos") if getattr(spec, f"{kind}_id") < 0]
    for kind in missing if names else ():
        name = getattr(spec, f"{kind}_piece")
        if name not in names:
            model.pieces.add(piece=name)
            names.append(name)
        setattr(spec, f"{kind}_id", names.index(name))
        model.pieces[names.index(name)].type = proto.ModelProto.SentencePiece.CONTROL
    spec.vocab_size = len(names)
    return model.SerializeToString() if missing else content


class Tokenizer:
    """A sentencepiece model; its file also defines the special ids.

    Args:
        path: the file.
        model: its content, or another model for it; see `completed_model`.

    Raises:
        UserError: the file is missing, is not a sentencepiece model, has a piece that is not
            UTF-8, or lacks a special piece.
    """

    def __init__(self, path: Path, model: bytes = b"") -> None:
        self.path = path
        self._processor = sentencepiece.SentencePieceProcessor()
        if not path.is_file():
            raise UserError(f"{path}: no such tokenizer; the corpus or model folder is incomplete")
        try:
            if model:
                self._processor.LoadFromSerializedProto(model)
            else:
                self._processor.Load(str(path))
            self.vocabulary_size: int = self._processor.GetPieceSize()
            self.all_pieces()
        # UnicodeDecodeError: a piece, or an error message that quotes one, is not UTF-8.
        except (RuntimeError, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: is not a sentencepiece model: {error}") from None
        self.pad_id: int = self._processor.pad_id()
        self.unknown_id: int = self._processor.unk_id()
        self.bos_id: int = self._processor.bos_id()
        self.eos_id: int = self._processor.eos_id()
        special = {
            "pad": self.pad_id,
            "unk": self.unknown_id,
            "bos": self.bos_id,
            "eos": self.eos_id,
        }
        if lacking := [kind for kind in special if special[kind] < 0]:
            raise UserError(
                f"{path}: lacks the special piece {', '.join(lacking)}; train the model again, with"
                f" {' '.join(f'--{kind}_id=N' for kind in lacking)} and N from 0 on"
            )
        if len(set(special.values())) < len(special):
            raise UserError(f"{path}: two special pieces have the same id; train the model again")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each text as ids, without BOS and EOS; UserError if one is not valid Unicode."""
        try:
            ids: list[list[int]] = self._processor.EncodeAsIds(
                [_composed(text) for text in texts], num_threads=_num_threads(texts)
            )
        except TypeError:
            for text in texts:
                if any("\ud800" <= character <= "\udfff" for character in text):
                    raise UserError(f"{one_line(text)}: is not valid UTF-8") from None
            raise
        return ids

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Decode each sequence of ids; padding, BOS and EOS are ignored."""
        special = {self.pad_id, self.bos_id, self.eos_id}
        kept = [[int(i) for i in ids if i not in special] for ids in sequences]
        texts: list[str] = self._processor.DecodeIds(kept, num_threads=_num_threads(kept))
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self._processor.IdToPiece(int(i)) for i in ids]

    def all_pieces(self) -> list[str]:
        """Return all pieces in the order of their ids; no two are equal."""
        return self.pieces(range(self.vocabulary_size))

    def word_indices(self, texts: Sequence[str]) -> list[list[int]]:
        """Return, for each piece of each text, the index of its word.

        Words are separated by white space. A piece that spans several words belongs to the
        word in which it ends.
        """
        texts = list(map(nfc, texts))
        found = self._processor.Encode(list(map(_composed, texts)), return_type="offset_mapping")
        words = []
        for text, pieces in zip(texts, found, strict=True):
            ends = [match.end() for match in re.finditer(r"\S+", text)]
            # White space is at the start of a piece; a piece that is all white space belongs to
            # the next word, if there is one. Where bytes of a character are pieces, all of these
            # but the last end at the start of the character.
            indices = (bisect.bisect_left(ends, end) for _, end in pieces["offsets"])
            words.append([min(index, len(ends) - 1) for index in indices])
        return words


def _num_threads(items: Sequence[object]) -> int:
    """Return the number of threads for so many items; -1 means one per core."""
    return 1 if len(items) < _MIN_ITEMS else -1


def _composed(text: str) -> str:
    """Return a text in Unicode's composed form (NFC), as training text is.

    The rules in a sentencepiece model compose most characters, but not Hangul, and not letters
    whose combining marks are in another order than that of NFC. U+0000, which these rules cannot
    contain, becomes a space.
    """
    return nfc(text).replace("\0", " ")


def nfc(text: str) -> str:
    """Return a text in Unicode's composed form (NFC), in linear time.

    Python sorts combining marks by insertion, which takes quadratic time for long runs. Such runs
    are therefore sorted before. The order of marks of the same class matters and stays.
    """

    def in_order(run: regex.Match[str]) -> str:
        parts = groupby(run[0], key=lambda mark: unicodedata.combining(mark) > 0)
        return "".join(
            "".join(sorted(part, key=unicodedata.combining) if is_sorted else part)
            for is_sorted, part in parts
        )

    return unicodedata.normalize("NFC", _MARKS.sub(in_order, text))
