"""How a translation may go on: its most probable next words, and a translation with each."""

import torch

from nmt.base.languages import has_word_blanks
from nmt.data.batch import collate
from nmt.tokenizer import WORD_BEGIN
from nmt.trained_model import TrainedModel
from nmt.translation.engine import banned_ids

_UNDECODED = "\ufffd"


@torch.inference_mode()
def next_beginnings(model: TrainedModel, source: str, prefix: str, count: int) -> list[str]:
    """Return the most probable beginnings of a translation that have one more piece than a prefix.

    Args:
        model: the model.
        source: a sentence that the model can read at once.
        prefix: whole words that its translation begins with; may be empty.
        count: the largest number of beginnings.

    Returns:
        The prefix with the beginning of another word, the most probable first.
    """
    target = model.target_tokenizer
    [source_ids], [ids] = model.source_tokenizer.encode([source]), target.encode([prefix])
    batch = collate([(source_ids, ids)], *model.tokenizers).to(model.device)
    hidden = model.network(batch.source, batch.source_mask, batch.target_input)  # (1, T, D)
    logits = model.network.project(hidden[:, -1])[0]  # (V,)
    logits[[*banned_ids(target), target.eos_id]] = -torch.inf
    if prefix and has_word_blanks(model.config.target_language):
        logits[[not one.startswith(WORD_BEGIN) for one in target.all_pieces()]] = -torch.inf
    # Some pieces decode to no text, or to a part of a character.
    best = logits.topk(min(2 * count, len(logits))).indices.tolist()
    begin, *texts = target.decode([ids, *([*ids, one] for one in best)])
    found = [one for one in texts if one.startswith(begin) and one[len(begin) :].strip()]
    return [one for one in dict.fromkeys(found) if _UNDECODED not in one][:count]
