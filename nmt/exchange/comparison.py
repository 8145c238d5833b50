"""Comparison of an imported model with the original one."""

from collections.abc import Sequence

import torch

from nmt.base.errors import UserError, one_line
from nmt.data.batch import collate
from nmt.exchange.huggingface import NEVER
from nmt.exchange.transformers_runtime import TransformersRuntime
from nmt.exchange.verify import greedy
from nmt.trained_model import TrainedModel
from nmt.translation.translator import Translator

# Relative to the largest logit.
_TOLERANCE = 1e-5
_BATCH_SIZE = 16


def compare(model: TrainedModel, original: TransformersRuntime, texts: Sequence[str]) -> str:
    """Compare ids, logits and greedy translations of some texts.

    Returns:
        All differences, in Markdown.

    Raises:
        UserError: no text fits the model, or logits differ by more than rounding errors.
    """
    eos_id = model.source_tokenizer.eos_id
    sources = model.source_tokenizer.encode(texts)
    kept = [i for i, ids in enumerate(sources) if 0 < len(ids) < model.config.max_source_length]
    if not kept:
        raise UserError("no line to compare fits the model; name other text with check=FILE")
    texts, sources = [texts[i] for i in kept], [sources[i] for i in kept]
    ours = [best.text for best, *_ in Translator(model, greedy(model)).translate(texts)]
    targets = model.target_tokenizer.encode(ours)
    difference, largest = _compare_logits(model, original, sources, targets)
    if not difference <= _TOLERANCE * largest:  # also if it is NaN
        raise UserError(
            f"logits of the imported model differ from the original ones by {difference:.2g}; the"
            f" largest is {largest:.2g}"
        )
    theirs = original.translate(texts)
    found = original.tokenizer(list(texts))["input_ids"]
    other_ids = [i for i, ids in enumerate(sources) if found[i] != [*ids, eos_id]]
    other_texts = [i for i, text in enumerate(ours) if text != theirs[i]]
    lines = [
        f"Compared with the original model on {len(texts):,} lines:",
        "",
        f"- logits differ by at most {difference:.1e}, and the largest is {largest:.1f}",
        f"- {len(other_ids):,} sources have other ids",
        f"- {len(other_texts):,} greedy translations differ",
        "",
    ]
    lines += [f"    other ids: {one_line(texts[i])}" for i in other_ids]
    for i in other_texts:
        lines += [f"    here: {one_line(ours[i])}", f"    original: {one_line(theirs[i])}"]
    return "\n".join(lines).rstrip() + "\n"


@torch.inference_mode()
def _compare_logits(
    model: TrainedModel,
    original: TransformersRuntime,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
) -> tuple[float, float]:
    """Return the largest difference of a logit, and the largest absolute logit of the original.

    Pieces that one of the models lacks are ignored. The largest logit also ignores pieces that the
    original excludes by a logit near NEVER.
    """
    longest = model.config.model.max_length - 1
    differences, magnitudes = [], []
    for first in range(0, len(sources), _BATCH_SIZE):
        part = slice(first, first + _BATCH_SIZE)
        pairs = [(s, t[:longest]) for s, t in zip(sources[part], targets[part], strict=True)]
        batch = collate(pairs, *model.tokenizers)
        hidden = model.network(batch.source, batch.source_mask, batch.target_input)
        ours = model.network.project(hidden)
        for row, theirs in zip(ours, original.logits(*zip(*pairs, strict=True)), strict=True):
            shared = theirs[:, : row.size(1)]
            differences.append((row[: len(shared), : shared.size(1)] - shared).abs().max())
            magnitudes.append(shared[shared > NEVER / 2].abs().max())
    return float(torch.stack(differences).max()), float(torch.stack(magnitudes).max())
