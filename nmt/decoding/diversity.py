"""Diverse beam search (Vijayakumar et al. 2016): groups that avoid each other's tokens."""

from dataclasses import dataclass, fields

import torch

from nmt.config import DecodingConfig
from nmt.decoding.choice import best_of_sentences
from nmt.decoding.live import Choice, NextTokens
from nmt.model.rows import RowGrid


@dataclass(frozen=True)
class DiverseChooser:
    """Each group is a beam of K / G; a token loses for what earlier groups take of it now.

    That is for each of their hypotheses that ends or may go on with it. The loss counts in the
    choice alone (Hamming diversity, section 4): sums and scores stay the model's.
    """

    config: DecodingConfig
    eos_id: int
    ranks_by_sum: bool = False

    @property
    def num_lanes(self) -> int:
        """One a group."""
        return self.config.diversity_groups

    def __call__(self, found: NextTokens, /) -> Choice:
        """Choose; see `Chooser`."""
        size = self.config.beam_size // self.num_lanes
        # (b, V): how many hypotheses of earlier groups take each token now.
        taken = found.log_probs.new_zeros(len(found.tasks), found.log_probs.size(-1))
        choices = []
        for lane in range(self.num_lanes):
            in_lane = (found.rows.lanes == lane).nonzero()[:, 0]
            if not len(in_lane):
                continue
            sentences = found.rows.sentences[in_lane]
            losses = self.config.diversity_strength * taken[sentences]
            ranked, tokens = (found.log_probs[in_lane] - losses).topk(
                min(2 * size, found.log_probs.size(-1)), dim=-1
            )
            choice = best_of_sentences(
                found.rows,
                RowGrid.of(sentences, len(found.tasks)),
                tokens,
                ranked,
                size,
                self.eos_id,
                in_lane,
                losses.gather(1, tokens),
            )
            is_taken = (choice.ends | choice.goes).to(taken.dtype)
            taken.scatter_add_(1, choice.tokens, is_taken)
            choices.append(choice)
        parts = {
            field.name: torch.cat([getattr(choice, field.name) for choice in choices], dim=1)
            for field in fields(Choice)
            if field.name != "rows"
        }
        return Choice(found.rows, **parts)
