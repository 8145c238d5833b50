"""The effect of the factor 1 / sqrt(d_k) in attention (Vaswani et al. 2017, section 3.2.1).

    python -m benchmarks.attention_scale [updates=150] [text=../shared/data/multi30k]

Measures attention with and without the factor, for d_k from 8 to 512: first of random queries and
keys with elements of variance 1, as in footnote 4 of the paper, then in short trainings of a small
Transformer. Its projections of queries and keys are initialised with variance 1 / D for every d_k,
as usual where H · d_k is D, so that queries and keys have elements of variance 1 too.
"""

import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.figures import print_table, write_result
from benchmarks.setting import bench_config, prepared, run_alone, text_name, train, trainer_of
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import (
    BatchingConfig,
    Config,
    ModelConfig,
    ScheduleConfig,
    TokenizerConfig,
    TrainingConfig,
    checked_dataclass,
)
from nmt.data.batch import collate
from nmt.model.attention import MultiHeadAttention, attention_weights
from nmt.training.loss import SummedLoss
from nmt.training.trainer import Trainer
from nmt.translation.forced import ForcedDecoder, Pair

KEY_WIDTHS = (8, 16, 32, 64, 128, 256, 512)
_WIDTH = 64
_NUM_MEASURED = 32  # pairs of the validation set


@checked_dataclass
class Arguments:
    """`updates` is the length of each training; `text` is a folder of aligned text."""

    updates: int = 150
    text: str = "../shared/data/multi30k"
    threads: int = 1


@dataclass(frozen=True)
class Measured:
    """Entropy of attention weights, and the gradients that pass through them.

    Attributes:
        entropy: mean over the rows of weights, in nats.
        query_gradient: median over positions of the norm of the gradient of a query.
        key_gradient: the same for keys.
    """

    entropy: float
    query_gradient: float
    key_gradient: float


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    rows = [
        {"d_k": key_width, "factor": factor, **asdict(random_attention(key_width, factor))}
        for key_width in KEY_WIDTHS
        for factor in (True, False)
    ]
    _print(f"{_NUM_MEASURED} random queries and keys", rows)
    with tempfile.TemporaryDirectory() as folder:
        config = _config(arguments, Path(folder))
        corpus = prepared(config)
        trained = []
        for key_width in KEY_WIDTHS:
            for factor in (True, False):
                found = run_alone(_trained, config, corpus, key_width, factor, arguments.threads)
                trained.append({"d_k": key_width, "factor": factor, **found})
    _print(f"Trainings of {arguments.updates} updates", trained)
    result = {"threads": arguments.threads, "text": text_name(arguments.text)}
    write_result(
        "attention-scale",
        {**result, "updates": arguments.updates, "random": rows, "trained": trained},
    )


def random_attention(key_width: int, factor: bool) -> Measured:
    """Measure attention of random queries to random keys, with random gradients of the weights."""
    generator = torch.Generator().manual_seed(1)
    query, key = (
        torch.randn(100, 1, _NUM_MEASURED, key_width, generator=generator).requires_grad_()
        for _ in range(2)
    )
    weights = attention_weights(query if factor else query * math.sqrt(key_width), key)
    loss = (weights * torch.randn(weights.shape, generator=generator)).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return _measured([weights], [query], [key])


def remove_factor(layer: MultiHeadAttention) -> None:
    """Multiply the queries of a layer by sqrt(d_k), which cancels the factor in the attention."""
    layer.attend = partial(_unscaled, layer)  # type: ignore[method-assign]


def _unscaled(layer: MultiHeadAttention, query: Tensor, *others: Any) -> Tensor:
    return MultiHeadAttention.attend(layer, query * math.sqrt(query.size(-1)), *others)


def _config(arguments: Arguments, folder: Path) -> Config:
    config = bench_config(arguments.text, folder)
    return replace(
        config,
        tokenizer=TokenizerConfig(vocabulary_size=2000),
        model=ModelConfig(
            width=_WIDTH,
            num_encoder_layers=2,
            num_decoder_layers=2,
            num_heads=2,
            value_width=_WIDTH // 2,
            feed_forward_width=2 * _WIDTH,
            dropout=0.0,
        ),
        schedule=ScheduleConfig(peak_learning_rate=3e-3, warmup_updates=50),
        batching=BatchingConfig(target_tokens_per_update=1024, tokens_per_micro_batch=2048),
        training=TrainingConfig(
            max_updates=arguments.updates, validate_every=arguments.updates, log_every=10
        ),
    )


def _trained(
    config: Config, corpus: Path, key_width: int, factor: bool, threads: int
) -> dict[str, float]:
    """Train; return measurements before and after, and the validation loss."""
    config = replace(config, model=replace(config.model, key_width=key_width))
    trainer = trainer_of(config, corpus, threads)
    torch.manual_seed(config.training.seed)
    for layer in _attention_layers(trainer.model.network):
        for projection in (layer.query, layer.key):
            nn.init.normal_(projection.weight, std=_WIDTH**-0.5)
        if not factor:
            remove_factor(layer)
    pairs = _valid_pairs(trainer)
    before = _measure(trainer, pairs, factor)
    train(trainer)
    after = _measure(trainer, pairs, factor)
    forced = ForcedDecoder(trainer.model)
    log_probs = forced.token_log_probs([pair for pair in pairs if forced.fits(pair)])
    found = {"valid_loss": -statistics.fmean(value for each in log_probs for value in each)}
    for when, measured in (("start", before), ("end", after)):
        found |= {f"{name}_{when}": value for name, value in asdict(measured).items()}
    return found


def _attention_layers(model: nn.Module) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def _valid_pairs(trainer: Trainer) -> list[Pair]:
    model, validator = trainer.model, trainer.validator
    sources = model.source_tokenizer.encode(validator.sources)
    return list(zip(sources, model.target_tokenizer.encode(validator.references), strict=True))


def _measure(trainer: Trainer, pairs: list[Pair], factor: bool) -> Measured:
    """Measure the encoder's self-attention and cross-attention on some pairs."""
    model = trainer.model
    recorded: list[tuple[Tensor, Tensor, Tensor]] = []
    layers = _attention_layers(model.network)
    attends = [layer.attend for layer in layers]
    for layer, attend in zip(layers, attends, strict=True):
        layer.attend = partial(_record, recorded, attend, factor)  # type: ignore[method-assign]
    batch = collate(pairs[:_NUM_MEASURED], *model.tokenizers)
    SummedLoss(model.network, 0.0)(batch).backward()
    model.network.zero_grad()
    for layer, attend in zip(layers, attends, strict=True):
        layer.attend = attend  # type: ignore[method-assign]
    return _measured(*zip(*recorded, strict=True))


def _record(
    recorded: list[tuple[Tensor, Tensor, Tensor]],
    attend: Callable[..., Tensor],
    factor: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Attend, and record the weights, the queries and the keys unless the mask is causal."""
    if not is_causal:
        query.retain_grad()
        key.retain_grad()
        used = query if factor else query * math.sqrt(query.size(-1))
        recorded.append((attention_weights(used, key, mask).detach(), query, key))
    return attend(query, key, value, mask, is_causal)


def _measured(
    weights: Sequence[Tensor], queries: Sequence[Tensor], keys: Sequence[Tensor]
) -> Measured:
    entropy = torch.cat([torch.special.entr(w.detach()).sum(dim=-1).flatten() for w in weights])
    return Measured(float(entropy.mean()), _median_norm(queries), _median_norm(keys))


def _median_norm(tensors: Sequence[Tensor]) -> float:
    """Median of the norms of gradients, without those of padding, which are zero."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    norms = torch.cat([gradient.norm(dim=-1).flatten() for gradient in gradients])
    return float(norms[norms > 0].median())


def _print(title: str, rows: Sequence[dict[str, Any]]) -> None:
    cells = [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    print_table(title, [name.replace("_", " ") for name in rows[0]], cells)


if __name__ == "__main__":
    run_command(main)
