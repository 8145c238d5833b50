"""Constraint to linearised trees over the words of a source (see `nmt.metrics.linearised`)."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from nmt.base.errors import UserError
from nmt.metrics.linearised import WORD
from nmt.search.live import NextTokens
from nmt.search.request import Ids, Request
from nmt.tokenizer import WORD_BEGIN

_NUM_OTHER_TOKENS = 3
"""Tokens of the smallest tree besides its words: two brackets and EOS."""


class TreeConstraint:
    """Forbids the next tokens after which a hypothesis cannot become a tree.

    Args:
        source_pieces: the source vocabulary.
        target_pieces: the target vocabulary, in which each bracket with its label is one piece.

    Raises:
        UserError: the target vocabulary lacks the symbol of words, or has no label with both
            brackets.
    """

    def __init__(self, source_pieces: Sequence[str], target_pieces: Sequence[str]) -> None:
        starts = [piece.startswith(WORD_BEGIN) for piece in source_pieces]
        self._word_starts = {index for index, is_start in enumerate(starts) if is_start}
        ids = {piece: index for index, piece in enumerate(target_pieces)}
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

    def prepare(self, request: Request, longest_target: int) -> Request:
        """Return a request whose maximum length allows the smallest tree.

        Raises:
            UserError: the smallest tree is longer than `longest_target`.
        """
        num_words = self._num_words(request)
        least = num_words + _NUM_OTHER_TOKENS
        if least > longest_target:
            raise UserError(
                f"a tree over {num_words} words has at least {least} tokens, but the model's"
                f" longest translation has {longest_target}; train with model.max_length={least}"
            )
        return replace(request, max_length=max(least, request.max_length))

    def __call__(self, next_tokens: NextTokens) -> None:
        """Forbid tokens; the requests are those that `prepare` returned."""
        live, log_probs = next_tokens.live, next_tokens.log_probs
        allowed: list[tuple[int, int]] = []
        for row, (sentence, ids) in enumerate(
            zip(live.sentences.tolist(), live.ids(), strict=True)
        ):
            request = next_tokens.requests[sentence]
            num_words = self._num_words(request)
            found = self.next_ids(ids, num_words, request.max_length, next_tokens.eos_id)
            allowed += ((row, token) for token in found)
        rows, tokens = torch.tensor(allowed, device=log_probs.device).T
        kept = log_probs[rows, tokens]
        log_probs.fill_(-torch.inf)
        log_probs[rows, tokens] = kept

    def _num_words(self, request: Request) -> int:
        return sum(token in self._word_starts for token in request.source)

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
