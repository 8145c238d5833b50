"""Models run by transformers, and the comparison of imported models with them."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.base.errors import UserError, one_line
from nmt.data.batch import collate, pad_ids
from nmt.exchange.foreign_weights import NEVER
from nmt.exchange.verify import greedy
from nmt.search.request import Request
from nmt.trained_model import TrainedModel
from nmt.translation.engine import length_batches
from nmt.translation.torch_engine import TorchEngine
from nmt.translation.translator import Translator

_BATCH_SIZE = 32
_LOGIT_TOLERANCE = 1e-5  # relative to the largest logit


class TransformersRuntime:
    """A folder of Marian or Pegasus, run by transformers.

    Args:
        model: the same model in torch, for ids and limits.
        folder: the files that transformers loads.

    Raises:
        ImportError: transformers is not installed.
    """

    tolerance = 1e-4  # see `Runtime`

    def __init__(self, model: TrainedModel, folder: Path) -> None:
        import transformers  # noqa: PLC0415

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self._model = model
        options = {"local_files_only": True, "trust_remote_code": False}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, **options)
        self.network = loaded.float().eval()

    @torch.inference_mode()
    def logits(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """Compute the logits (T + 1, V) of the tokens of each target and of EOS, in one batch."""
        config, eos_id = self.network.config, self._model.source_tokenizer.eos_id
        source, mask = pad_ids(sources, config.pad_token_id, after=eos_id)
        target, _ = pad_ids(targets, config.pad_token_id, before=config.decoder_start_token_id)
        output = self.network(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        )
        pairs = zip(output.logits, targets, strict=True)
        return [rows[: len(ids) + 1] for rows, ids in pairs]

    def token_log_probs(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""
        found = []
        for first in range(0, len(sources), _BATCH_SIZE):
            part = slice(first, first + _BATCH_SIZE)
            batch = self.logits(sources[part], targets[part])
            for logits, ids in zip(batch, targets[part], strict=True):
                tokens = torch.tensor([*ids, self._model.target_tokenizer.eos_id])
                log_probs = logits.log_softmax(dim=-1).gather(1, tokens[:, None])
                found.append(log_probs[:, 0].tolist())
        return found

    @torch.inference_mode()
    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate by greedy search, up to the length at which our search stops."""
        engine = TorchEngine(self._model, self._model.config.decoding)
        encoded = self.tokenizer(list(texts), truncation=True)["input_ids"]
        longest = self.network.config.max_position_embeddings
        found: list[list[int]] = [[]] * len(texts)
        for indices in length_batches([len(ids) for ids in encoded], lambda _: _BATCH_SIZE):
            rows = [encoded[index] for index in indices]
            batch = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
            limits = [engine.longest_translation(len(ids), Request()) for ids in rows]
            # `generate` forces EOS as the last token of the longest row; the slice removes it.
            options = {"num_beams": 1, "do_sample": False}
            options["max_length"] = min(max(limits) + 2, longest)
            output = self.network.generate(**batch, **options).tolist()
            for index, ids, limit in zip(indices, output, limits, strict=True):
                found[index] = ids[1 : limit + 1]
        return self.tokenizer.batch_decode(found, skip_special_tokens=True)


def compare(model: TrainedModel, original: TransformersRuntime, texts: Sequence[str]) -> str:
    """Compare ids, logits and greedy translations of some texts.

    Returns:
        The largest difference of a logit, and the texts with other ids or another translation, in
        Markdown.

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
    if not difference <= _LOGIT_TOLERANCE * largest:  # also if it is NaN
        raise UserError(
            f"logits of the imported model differ from the original ones by {difference:.2g}; the"
            f" largest logit is {largest:.2g}"
        )
    theirs = original.translate(texts)
    found = original.tokenizer(list(texts))["input_ids"]
    other_ids = [i for i, ids in enumerate(sources) if found[i] != [*ids, eos_id]]
    other_texts = [i for i, text in enumerate(ours) if text != theirs[i]]
    lines = [
        f"Compared with the original model on {len(texts):,} lines:",
        "",
        f"- logits differ by at most {difference:.1e}, and the largest logit is {largest:.1f}",
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

    Pieces that one of the models lacks are ignored. For the largest logit, pieces that the original
    excludes by a logit near NEVER are ignored, too.
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
