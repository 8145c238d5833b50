"""Import of tokenizers of other programs, and export of ours as `tokenizer.json`.

Marian splits text into pieces by a sentencepiece model per language, but takes the ids of the
pieces from a vocabulary file; one file may serve both languages. `write_tokenizer` rewrites a
sentencepiece model so that it has all pieces of the vocabulary, in the order of their ids.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto

from nmt.base.errors import UserError
from nmt.tokenizer import RULES_FILE, WORD_BEGIN, Tokenizer

EOS, UNKNOWN, PAD, BOS = "</s>", "<unk>", "<pad>", "<s>"
_UNUSED = "<unused "  # begin of the name of a piece for a row without a piece

# The score of an unknown character is the lowest score minus this number, as in sentencepiece.
_UNKNOWN_PENALTY = 10.0
_Piece = proto.ModelProto.SentencePiece
# Kinds of pieces that `tokenizer.json` can express.
_KINDS = {_Piece.NORMAL, _Piece.UNKNOWN, _Piece.CONTROL, _Piece.BYTE}
# The template's regex contains white space itself, because Oniguruma reads \xa0 as a byte.
_TEMPLATE = Path(__file__).with_name("tokenizer_template.json")


def read_sentencepiece(path: Path) -> proto.ModelProto:
    """Parse a sentencepiece model of unknown origin."""
    model = proto.ModelProto()
    model.ParseFromString(path.read_bytes())
    if not any(piece.type == _Piece.NORMAL for piece in model.pieces):
        raise UserError(f"{path}: is not a sentencepiece model: it has no pieces")
    return model


def plain_piece(piece: str) -> str:
    """Return a piece without the ▁ that `write_tokenizer` puts before a target language `>>…<<`."""
    is_language = piece.startswith(f"{WORD_BEGIN}>>") and piece.endswith("<<")
    return piece.removeprefix(WORD_BEGIN) if is_language else piece


def pieces_in_order(ids: Mapping[str, int], path: Path, num_rows: int) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids, one for each row of a matrix.

    The ids must be 0, 1, 2, …. Pieces without a row are left out; rows without a piece get one that
    occurs in no text, so that the probabilities of all others stay those of the original model.
    """
    pieces = sorted(ids, key=lambda piece: ids[piece])
    if [ids[piece] for piece in pieces] != list(range(len(ids))):
        raise UserError(f"{path}: ids are not the numbers from 0 to {len(ids) - 1:,}, each once")
    pieces = [*pieces[:num_rows], *(f"{_UNUSED}{i}>" for i in range(len(pieces), num_rows))]
    for piece in (EOS, UNKNOWN):
        if piece not in pieces:
            raise UserError(f"{path}: lacks the piece {piece}")
    return pieces


def write_tokenizer(
    path: Path, model: proto.ModelProto, pieces: Sequence[str], added: Collection[str] = ()
) -> None:
    """Write a sentencepiece model that splits text as `model` does, with the ids of a vocabulary.

    Args:
        path: output file.
        model: the foreign sentencepiece model.
        pieces: the vocabulary in the order of its ids, with EOS and UNKNOWN; PAD and BOS are added
            at the end if they are missing.
        added: those of `pieces` that were added after training; they are found in text before it
            is split, at the beginning of a word.

    Raises:
        UserError: a piece is a target language such as `>>deu<<`, but `model` is no unigram model.
    """
    spec = model.trainer_spec
    special_ids = spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id
    has_same_pieces = [plain_piece(piece.piece) for piece in model.pieces] == list(pieces)
    if has_same_pieces and min(special_ids) >= 0:  # nothing to rewrite, as in our own exports
        path.write_bytes(model.SerializeToString())
        return
    known = {piece.piece: piece for piece in model.pieces}
    lowest = min(piece.score for piece in model.pieces if piece.type == _Piece.NORMAL)
    pieces = [*pieces, *(special for special in (PAD, BOS) if special not in pieces)]
    written = proto.ModelProto()
    written.CopyFrom(model)
    del written.pieces[:]
    for piece in pieces:
        name, kind, score = piece, _Piece.UNUSED, 0.0
        if piece == UNKNOWN:
            kind = _Piece.UNKNOWN
        elif piece in (EOS, PAD, BOS) or piece.startswith(_UNUSED):
            kind = _Piece.CONTROL
        elif piece in added:
            name, kind = f"{WORD_BEGIN}{piece}", _Piece.USER_DEFINED
        elif piece.startswith(">>") and piece.endswith("<<"):
            # A target language, with which the sources of a multilingual model begin. It gets a ▁,
            # because sentencepiece puts a space before a text. Ordinary pieces have scores below 0,
            # so a unigram model always chooses this piece.
            if spec.model_type != spec.UNIGRAM:
                raise UserError(f"only unigram tokenizers can have a target language, here {piece}")
            name, kind = f"{WORD_BEGIN}{piece}", _Piece.NORMAL
        elif piece in known:
            kind, score = known[piece].type, known[piece].score
        elif len(piece) == 1:  # Marian finds the id of a character even if `model` lacks it
            kind, score = _Piece.NORMAL, lowest - _UNKNOWN_PENALTY
        # All other pieces belong to the other language and stay unused.
        written.pieces.add(piece=name, type=kind, score=score)
    trainer = written.trainer_spec
    trainer.vocab_size = len(pieces)
    trainer.unk_piece, trainer.unk_id = UNKNOWN, pieces.index(UNKNOWN)
    trainer.bos_piece, trainer.bos_id = BOS, pieces.index(BOS)
    trainer.eos_piece, trainer.eos_id = EOS, pieces.index(EOS)
    trainer.pad_piece, trainer.pad_id = PAD, pieces.index(PAD)
    path.write_bytes(written.SerializeToString())


def import_tokenizers(
    workspace: Path,
    files: Sequence[str],
    origins: Sequence[str],
    models: Sequence[proto.ModelProto],
    vocabularies: Sequence[Sequence[str]],
    added: Collection[str] = (),
) -> list[Tokenizer]:
    """Write and open the tokenizers of source and target; see `write_tokenizer`.

    For a joint vocabulary, `files` contains the same name twice. If a tokenizer cannot be used, the
    error message begins with the entry of that tokenizer in `origins`.
    """
    tokenizers = {}
    for file, origin, model, pieces in zip(files, origins, models, vocabularies, strict=True):
        try:
            write_tokenizer(workspace / file, model, pieces, added)
            tokenizers[file] = Tokenizer(workspace / file)
        except UserError as error:
            raise UserError(f"{origin}: {error}") from None
    return [tokenizers[file] for file in files]


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Convert a tokenizer to the contents of `tokenizer.json`; None if that would not be exact.

    Hugging Face's libraries for Rust and JavaScript read this file. The conversion is exact for BPE
    with byte fallback and without user-defined pieces, if `data_prep` has trained the tokenizer:
    `tokenizer_template.json` has the rules of normalization of `data_prep`.
    """
    model = read_sentencepiece(tokenizer.path)
    trainer, rules = model.trainer_spec, model.normalizer_spec
    if (
        trainer.model_type != trainer.BPE
        or not trainer.byte_fallback
        or (rules.name, rules.normalization_rule_tsv) != ("user_defined", RULES_FILE)
        or not {piece.type for piece in model.pieces} <= _KINDS
    ):
        return None
    pieces = [piece.piece for piece in model.pieces]
    eos = pieces[tokenizer.eos_id]
    special = {tokenizer.unknown_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}
    written: dict[str, Any] = json.loads(_TEMPLATE.read_text(encoding="utf-8"))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    written["added_tokens"] = [
        {"id": index, "content": pieces[index], "special": True, **flags}
        for index in sorted(special)
    ]
    processor, end = written["post_processor"], {"SpecialToken": {"id": eos, "type_id": 0}}
    processor["single"].append(end)
    processor["pair"].append(end)
    processor["special_tokens"] = {eos: {"id": eos, "ids": [tokenizer.eos_id], "tokens": [eos]}}
    written["model"] |= {
        "unk_token": pieces[tokenizer.unknown_id],
        "vocab": {piece: index for index, piece in enumerate(pieces)},
        "merges": _merges(model),
    }
    return written


def _merges(model: proto.ModelProto) -> list[tuple[str, str]]:
    """Return all pairs of pieces that merge into a piece; the most probable results come first."""
    ids = {p.piece: i for i, p in enumerate(model.pieces) if p.type == _Piece.NORMAL}
    ranked = []
    for piece, index in ids.items():
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        ranked += [
            (-model.pieces[index].score, ids[left], ids[right], (left, right))
            for left, right in splits
            if left in ids and right in ids
        ]
    return [pair for *_, pair in sorted(ranked)]
