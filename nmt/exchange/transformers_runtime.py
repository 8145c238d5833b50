"""Models of Hugging Face, run by transformers."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.data.batch import pad_ids
from nmt.exchange.runtimes import score
from nmt.search.request import Ids, Request
from nmt.trained_model import TrainedModel
from nmt.translation.engine import length_batches
from nmt.translation.torch_engine import TorchEngine

_BATCH_SIZE = 32

EXACT = 5e-10
"""Tolerance in float64. In an ill-conditioned model, rounding changed log-probabilities by 4e-12
nats; in float32, it changed them by 0.03."""


class TransformersRuntime:
    """A folder of Marian or Pegasus, run by transformers in float64; see `Runtime`.

    Args:
        model: the same model in torch, for ids and limits.
        folder: the files that transformers loads.
        tolerance: see `Runtime`.

    Raises:
        ImportError: transformers is not installed.
    """

    dtype = torch.float64

    def __init__(self, model: TrainedModel, folder: Path, tolerance: float = EXACT) -> None:
        import transformers  # noqa: PLC0415

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.program = f"transformers {transformers.__version__} in float64"
        self.tolerance = tolerance
        self._model = model
        options = {"local_files_only": True, "trust_remote_code": False}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        # Weights of all types are imported as float32.
        loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype=torch.float32, **options
        )
        self.network = loaded.double().eval()

    def restore_positions(self, table: Tensor, tolerance: float) -> None:
        """Replace stored positions by exact ones (S, D), unless they differ by more than rounding.

        Folders in half precision may have rounded positions, but the original model did not.
        """
        for side in (self.network.model.encoder, self.network.model.decoder):
            stored = side.embed_positions.weight.data
            if (stored - table).abs().max() < tolerance:
                stored.copy_(table)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources, EOS last."""
        found: list[list[int]] = self.tokenizer(list(texts))["input_ids"]
        return found

    @torch.inference_mode()
    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""
        return score(self._logits, sources, targets, self._model.target_tokenizer)

    def _logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> Tensor:
        config, eos_id = self.network.config, self._model.source_tokenizer.eos_id
        source, mask = pad_ids(sources, config.pad_token_id, after=eos_id)
        target, _ = pad_ids(targets, config.pad_token_id, before=config.decoder_start_token_id)
        output = self.network(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        )
        logits: Tensor = output.logits
        return logits

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
