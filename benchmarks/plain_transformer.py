"""The same model built on `torch.nn.Transformer`, as a baseline of speed."""

import itertools
import math
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Compilation, Config, Layout, ModelConfig, NormPlacement, Precision
from nmt.data.batch import Batch, Segments
from nmt.data.loader import UpdateWork
from nmt.model.attention import MultiHeadAttention, causal_mask, same_segment
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.model.positions import sinusoidal_table
from nmt.model.transformer import Transformer
from nmt.training.passes import CapturedPasses, precision_on
from nmt.training.schedule import learning_rate


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer`, tied embeddings, sinusoidal positions, a loss over all logits.

    Args:
        config: sizes, placement of norms and rates of dropout; its positions are ignored.
        vocabulary_size: V.
        pad_id: id of padding, which is ignored by the loss.
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
        self.loss = _loss
        with warnings.catch_warnings():
            # A warning that pre-norm has no fast path for inference.
            warnings.simplefilter("ignore", UserWarning)
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
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = config.attention_dropout
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = config.activation_dropout

    def copy_weights(self, model: Transformer) -> None:
        """Copy the weights of `model`, which must have three-way tied embeddings."""
        self.embedding.load_state_dict(model.source_embedding.state_dict())
        copy_weights(self.transformer, model)

    def forward(self, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the label-smoothed loss, summed over target tokens."""
        if batch.segments is None:
            length = batch.target_input.size(1)
            mask = torch.ones(length, length, dtype=torch.bool, device=batch.source.device).triu(1)
            hidden = self.transformer(
                self._embed(batch.source),
                self._embed(batch.target_input),
                tgt_mask=mask,  # True above the diagonal
                src_key_padding_mask=~batch.source_mask,
                memory_key_padding_mask=~batch.source_mask,
                tgt_is_causal=True,
            )
        else:
            hidden = self._packed(batch, batch.segments)
        return self.loss(
            hidden, self.embedding.weight, batch.target_output, self.pad_id, label_smoothing
        )

    def _packed(self, batch: Batch, segments: Segments) -> Tensor:
        """Compute (B, T, D) in packed rows, with a mask for each head."""
        source, target = segments.source, segments.target
        causal = causal_mask(target.size(1), target.device)
        is_padding = (target == 0)[:, None, :, None]
        masks = (
            same_segment(source, source),
            same_segment(target, target) & causal,
            same_segment(target, source) | is_padding,
        )
        num_heads = self.transformer.nhead
        hidden: Tensor = self.transformer(
            self._embed(batch.source, segments.source_positions),
            self._embed(batch.target_input, segments.target_positions),
            *((~mask[:, 0]).repeat_interleave(num_heads, dim=0) for mask in masks),
            src_is_causal=False,
            tgt_is_causal=False,
        )
        return hidden

    def _embed(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        assert isinstance(self.table, Tensor)
        of_positions = self.table[: ids.size(1)] if positions is None else self.table[positions]
        embedded: Tensor = self.dropout(self.embedding(ids) * self.scale + of_positions)
        return embedded

    def compile_parts(self) -> None:
        """Compile each layer, and the loss, for their one shape."""
        for layer in (*self.transformer.encoder.layers, *self.transformer.decoder.layers):
            layer.compile(dynamic=False)
        self.loss = torch.compile(_loss, dynamic=False)


def _loss(
    hidden: Tensor, weight: Tensor, tokens: Tensor, pad_id: int, label_smoothing: float
) -> Tensor:
    logits = F.linear(hidden, weight)  # (B, T, V)
    return F.cross_entropy(
        logits.flatten(0, 1),
        tokens.flatten(),
        ignore_index=pad_id,
        label_smoothing=label_smoothing,
        reduction="sum",
    )


@torch.no_grad()
def copy_weights(transformer: nn.Transformer, model: Transformer) -> None:
    """Copy weights to torch's layers, so that both models compute the same function."""
    if model.config.norm is NormPlacement.pre:
        transformer.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        transformer.decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    else:
        # torch adds a norm after a post-norm stack, which the paper does not have.
        transformer.encoder.norm = transformer.decoder.norm = None
    for layer, copy in zip(model.encoder, transformer.encoder.layers, strict=True):
        _copy_attention(copy.self_attn, layer.self_attention)
        _copy_feed_forward(copy, layer)
        copy.norm1.load_state_dict(layer.self_attention_residual.norm.state_dict())
        copy.norm2.load_state_dict(layer.feed_forward_residual.norm.state_dict())
    for decoder_layer, copy in zip(model.decoder, transformer.decoder.layers, strict=True):
        _copy_attention(copy.self_attn, decoder_layer.self_attention)
        _copy_attention(copy.multihead_attn, decoder_layer.cross_attention)
        _copy_feed_forward(copy, decoder_layer)
        copy.norm1.load_state_dict(decoder_layer.self_attention_residual.norm.state_dict())
        copy.norm2.load_state_dict(decoder_layer.cross_attention_residual.norm.state_dict())
        copy.norm3.load_state_dict(decoder_layer.feed_forward_residual.norm.state_dict())


def _copy_feed_forward(
    copy: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer,
    layer: EncoderLayer | DecoderLayer,
) -> None:
    assert isinstance(layer.feed_forward, FeedForward)
    copy.linear1.load_state_dict(layer.feed_forward.inner.state_dict())
    copy.linear2.load_state_dict(layer.feed_forward.outer.state_dict())


def _copy_attention(copy: nn.MultiheadAttention, attention: MultiHeadAttention) -> None:
    parts = (attention.query, attention.key, attention.value)
    copy.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    copy.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    copy.out_proj.load_state_dict(attention.output.state_dict())


def plain_update(
    config: Config,
    vocabulary_size: int,
    pad_id: int,
    device: torch.device,
    initial_model: Transformer | None = None,
) -> Callable[[UpdateWork], Tensor]:
    """Create a `PlainTransformer` and return a function that computes one update.

    On GPUs it uses the same precision as the trainer, and a fused optimizer.

    Args:
        config: the experiment; the learning rate follows its schedule.
        vocabulary_size: V.
        pad_id: id of padding.
        device: the device of the model.
        initial_model: a model whose weights are copied; the default is a new initialisation.

    Returns:
        A function that computes an update and returns its summed loss.
    """
    torch.manual_seed(config.training.seed)
    model = PlainTransformer(config.model, vocabulary_size, pad_id).to(device).train()
    if initial_model is not None:
        model.copy_weights(initial_model)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=device.type == "cuda"
    )
    numbers = itertools.count(1)
    is_fixed = (
        config.training.compile is Compilation.always and config.batching.layout is Layout.packed
    )
    if is_fixed:
        model.compile_parts()
    torch.backends.cuda.enable_cudnn_sdp(is_fixed)  # as in `nmt.training.passes`
    captured: list[CapturedPasses] = []
    uses_bfloat16 = precision_on(device, Precision.auto) is Precision.bfloat16

    def compute(batch: Batch, weight: float | Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=uses_bfloat16):
            loss: Tensor = model(batch, config.training.label_smoothing)
        (loss * weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def step(work: UpdateWork) -> Tensor:
        total_loss = torch.zeros((), device=device)
        optimizer.zero_grad(set_to_none=True)
        rate = learning_rate(next(numbers), config.schedule, config.training.max_updates)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batches = list(work.micro_batches.values())
        if is_fixed and device.type == "cuda":
            if not captured:
                captured.append(CapturedPasses(compute, model, batches[0].to(device)))
            captured[0].begin_update(len(batches))
        for batch in batches:
            passes = captured[0] if captured else lambda batch, w: compute(batch.to(device), w)
            total_loss += passes(batch, 1 / work.num_target_tokens)
        nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.max_gradient_norm)
        optimizer.step()
        return total_loss

    return step
