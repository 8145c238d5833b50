"""Constraints on translations as text, and their conversion to requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.base.errors import UserError
from nmt.search.request import Request
from nmt.search.required import missing
from nmt.tokenizer import Tokenizer
from nmt.translation.engine import Engine


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one text; none by default.

    Attributes:
        prefix: text that the translation begins with.
        required: phrases that must occur in it, in this spelling.
        banned: phrases that must not occur in it, in this spelling.
    """

    prefix: str = ""
    required: Sequence[str] = ()
    banned: Sequence[str] = ()


def to_request(constraints: Constraints, tokenizer: Tokenizer, engine: Engine) -> Request:
    """Convert constraints to ids of the target vocabulary, for an engine.

    Raises:
        UserError: the constraints cannot be fulfilled.
    """
    [prefix] = tokenizer.encode([constraints.prefix])
    banned = [ids for ids in tokenizer.encode(list(constraints.banned)) if ids]
    phrases = list(dict.fromkeys(constraints.required))
    required = tokenizer.encode(phrases)
    for phrase, ids in zip(phrases, required, strict=True):
        if tokenizer.unknown_id in ids:
            raise UserError(
                f'required phrase "{phrase}" has characters that are not in the vocabulary of the'
                " model; remove it"
            )
    request = Request(prefix, [ids for ids in required if ids], banned)
    longest = engine.longest_target - 1
    if request.num_tokens > longest:
        raise UserError(
            f"prefix and required phrases have {request.num_tokens} tokens, and the model's longest"
            f" translation has {longest}; shorten them"
        )
    for phrase, ids in zip(phrases, required, strict=True):
        if len(missing(ids, banned)) < len(banned):
            raise UserError(
                f'required phrase "{phrase}" contains a banned phrase; remove one of them'
            )
    if reason := engine.reason_to_reject(request):
        raise UserError(reason)
    return request
