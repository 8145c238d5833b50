"""`tokenizer.json`, the tokenizer of the Rust and JavaScript libraries of Hugging Face."""

from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto

from nmt.exchange.foreign_tokenizer import read_sentencepiece
from nmt.tokenizer import WORD_BEGIN, Tokenizer

_Piece = proto.ModelProto.SentencePiece
_KINDS = {_Piece.NORMAL, _Piece.UNKNOWN, _Piece.CONTROL, _Piece.BYTE}
# Written out: in a regular expression of Oniguruma, \xa0 is a byte and not a character.
_WHITE_SPACE = "[\x00- \x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Convert a tokenizer that this program has trained; None if it has no exact form there.

    That is so for the unigram algorithm, for pieces that the user has defined, and for the
    normalisation of tokenizers of other programs.
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
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": index, "content": pieces[index], "special": True, "normalized": False}
            | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
            for index in sorted(special)
        ],
        "normalizer": _sequence(
            "normalizers",
            {"type": "NFC"},
            _replace({"String": "\ufeff"}, ""),
            _replace({"String": WORD_BEGIN}, "_"),
            _replace({"Regex": _WHITE_SPACE}, " "),
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ),
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": WORD_BEGIN,
            "prepend_scheme": "always",
            "split": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, _special(eos)],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                _special(eos),
            ],
            "special_tokens": {eos: {"id": eos, "ids": [tokenizer.eos_id], "tokens": [eos]}},
        },
        "decoder": _sequence(
            "decoders",
            _replace({"String": WORD_BEGIN}, " "),
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": pieces[tokenizer.unknown_id],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": _merges(model),
        },
    }


def _merges(model: proto.ModelProto) -> list[tuple[str, str]]:
    """Return all splits of each piece into two, the most probable pieces first."""
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


def _sequence(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: list(steps)}


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _special(piece: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": piece, "type_id": 0}}
