"""`tokenizer.json`, the tokenizer of the Rust and JavaScript libraries of Hugging Face."""

import json
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto

from nmt.exchange.foreign_tokenizer import read_sentencepiece
from nmt.tokenizer import Tokenizer

_Piece = proto.ModelProto.SentencePiece
_KINDS = {_Piece.NORMAL, _Piece.UNKNOWN, _Piece.CONTROL, _Piece.BYTE}
# White space is written as characters: for Oniguruma, \xa0 in an expression is a byte.
_TEMPLATE = Path(__file__).with_name("tokenizer_template.json")


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Convert a tokenizer to the contents of `tokenizer.json`; None if that would not be exact.

    The conversion is exact for BPE with byte fallback and without user-defined pieces, if
    `data_prep` has trained the tokenizer: other programs normalise text differently.
    """
    model = read_sentencepiece(tokenizer.path)
    trainer, rules = model.trainer_spec, model.normalizer_spec
    if (
        trainer.model_type != trainer.BPE
        or not trainer.byte_fallback
        or rules.name != "user_defined"
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
    """Return all splits of each piece into two other pieces, the most probable pieces first."""
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
