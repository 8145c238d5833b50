"""The same model as a user would write it around `torch.nn.Transformer`: the yardstick."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Config, ModelConfig, NormPlacement, Precision
from nmt.data.batch import Batch
from nmt.data.loader import UpdateWork
from nmt.model.positions import sinusoidal_table
from nmt.training.updater import precision_on


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer`, tied embeddings, sinusoidal positions, a loss over all logits.

    Args:
        config: sizes and placement of norms, whatever its positions are; one dropout rate serves
            all places, as in `torch.nn.Transformer`.
        vocabulary_size: V.
        pad_id: not learned from.
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocabulary_size, config.width, padding_idx=pad_id)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.scale = math.sqrt(config.width)
        table = sinusoidal_table(config.max_length, config.width)
        self.register_buffer("table", table, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.width,
            config.num_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.feed_forward_width,
            config.dropout,
            batch_first=True,
            norm_first=config.norm is NormPlacement.pre,
        )

    def forward(self, batch: Batch, label_smoothing: float) -> Tensor:
        """Summed label-smoothed loss."""
        length = batch.target_input.size(1)
        ahead = torch.ones(length, length, dtype=torch.bool, device=batch.source.device).triu(1)
        hidden = self.transformer(
            self._embed(batch.source),
            self._embed(batch.target_input),
            tgt_mask=ahead,
            src_key_padding_mask=~batch.source_mask,
            memory_key_padding_mask=~batch.source_mask,
            tgt_is_causal=True,
        )
        logits = F.linear(hidden, self.embedding.weight)  # (B, T, V)
        return F.cross_entropy(
            logits.flatten(0, 1),
            batch.target_output.flatten(),
            ignore_index=self.pad_id,
            label_smoothing=label_smoothing,
            reduction="sum",
        )

    def _embed(self, ids: Tensor) -> Tensor:
        assert isinstance(self.table, Tensor)
        embedded: Tensor = self.dropout(
            self.embedding(ids) * self.scale + self.table[: ids.size(1)]
        )
        return embedded


def ordinary_loop(
    config: Config, vocabulary_size: int, pad_id: int, device: torch.device
) -> Callable[[UpdateWork], None]:
    """A model on a device, and what makes one update of it as most programs do.

    On GPUs it has the precision that ours has there, and a fused optimizer.
    """
    torch.manual_seed(config.training.seed)
    model = PlainTransformer(config.model, vocabulary_size, pad_id).to(device).train()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=device.type == "cuda"
    )
    is_narrow = precision_on(device, Precision.auto) is Precision.bfloat16

    def step(work: UpdateWork) -> None:
        optimizer.zero_grad(set_to_none=True)
        for micro_batch in work.micro_batches:
            with torch.autocast(device.type, torch.bfloat16, enabled=is_narrow):
                loss = model(micro_batch.batch.to(device), config.training.label_smoothing)
            (loss / work.num_target_tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.max_gradient_norm)
        optimizer.step()

    return step
