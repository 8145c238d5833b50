"""Constraint to linearised trees over the words of a source (see `nmt.metrics.linearised`)."""

from collections.abc import Sequence

import torch

from nmt.base.errors import UserError
from nmt.metrics.linearised import WORD
from nmt.search.live import NextTokens
from nmt.search.request import Ids
from nmt.tokenizer import WORD_BEGIN

NUM_OTHER_TOKENS = 3
"""Tokens of the smallest tree besides its words: two brackets and EOS."""


class TreeGrammar:
    """Rules for the next tokens with which a hypothesis can still become a tree.

    `pieces` is the target vocabulary, in which each bracket with its label is one piece.

    Raises:
        UserError: the vocabulary lacks the symbol of words, or has no label with both brackets.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        ids = {piece: index for index, piece in enumerate(pieces)}
        self._closing = {
            index: ids[f"{WORD_BEGIN}){piece[2:]}"]
            for piece, index in ids.items()
            if piece.startswith(f"{WORD_BEGIN}(") and f"{WORD_BEGIN}){piece[2:]}" in ids
        }
        self._word = ids.get(WORD_BEGIN + WORD, -1)
        if self._word < 0 or not self._closing:
            raise UserError(
                f"decoding.trees=true: the target vocabulary lacks {WORD}, (S and )S as pieces;"
                " train with the tokenizer.user_symbols of experiment=parsing, or set"
                " decoding.trees=false"
            )

    def next_ids(self, ids: Ids, num_words: int, max_length: int, eos_id: int) -> list[int]:
        """Return the tokens that can follow `ids` in a tree over `num_words` words.

        `max_length` includes EOS, and allows the smallest tree. Some token can always follow: space
        is reserved for missing words, closing brackets and EOS. No constituent is empty.
        """
        opened: list[int] = []
        words = 0
        for token in ids:
            if token == self._word:
                words += 1
            elif token in self._closing:
                opened.append(self._closing[token])
            else:
                opened.pop()
        if ids and not opened:
            return [eos_id]
        missing = num_words - words
        free = max_length - 1 - len(ids) - missing - len(opened)
        found = [self._word] if missing and opened else []
        if missing and free >= 2:  # for an opening bracket and its closing bracket
            found += self._closing
        if opened and ids[-1] not in self._closing and (len(opened) > 1 or not missing):
            found.append(opened[-1])
        return found


def apply_trees(next_tokens: NextTokens, grammar: TreeGrammar) -> None:
    """Forbid the tokens after which a hypothesis cannot become a tree."""
    live, log_probs = next_tokens.live, next_tokens.log_probs
    allowed: list[tuple[int, int]] = []
    for row, (sentence, ids) in enumerate(zip(live.sentences.tolist(), live.ids(), strict=True)):
        request = next_tokens.requests[sentence]
        found = grammar.next_ids(ids, request.num_words, request.max_length, next_tokens.eos_id)
        allowed += ((row, token) for token in found)
    rows, tokens = torch.tensor(allowed, device=log_probs.device).T
    kept = log_probs[rows, tokens]
    log_probs.fill_(-torch.inf)
    log_probs[rows, tokens] = kept
