"""Conversion of a trained model to CTranslate2, verified against torch.

The vocabularies of the converted model are the pieces of our tokenizers, in the order of
their ids. CTranslate2 itself appends EOS to a source and starts the decoder with BOS.
"""

import copy
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from ctranslate2 import Translator
from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor, nn

from nmt.base.errors import UserError
from nmt.config import LengthPenalty, NormPlacement, Positions, StartEmbedding
from nmt.exchange.interface import Runtime, transformer_of, usage_of
from nmt.exchange.runtimes import EngineRuntime, greedy
from nmt.exchange.verify import verify
from nmt.model.attention import MultiHeadAttention
from nmt.search.hypothesis import penalty_exponent
from nmt.search.request import Ids
from nmt.trained_model import TrainedModel
from nmt.translation.ctranslate2_engine import CTranslate2Engine, open_translator

# Types in which weights can be stored; CTranslate2 calls the choice "quantization".
_COMPUTE_TYPES = ("float32", "float16", "bfloat16", "int8", "int16")
_ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "silu": common_spec.Activation.SWISH,
}


class CTranslate2Runtime(EngineRuntime):
    """A converted model; see `Runtime`. The folder `temporary` is removed with this object."""

    def __init__(
        self,
        model: TrainedModel,
        folder: Path,
        program: str = "CTranslate2",
        # In float32, another order of summation changes a log-probability by about 1e-5 nats. A
        # wrong factor or offset changes it by tenths of a nat.
        tolerance: float = 1e-4,
        temporary: TemporaryDirectory[str] | None = None,
    ) -> None:
        self.program, self.tolerance = program, tolerance
        self._model, self._folder, self._temporary = model, folder, temporary

    @cached_property
    def _engine(self) -> CTranslate2Engine:  # type: ignore[override]
        return CTranslate2Engine(self._model, greedy(self._model), self._folder, "default")

    @cached_property
    def _scorer(self) -> Translator:
        return open_translator(self._folder, intra_threads=torch.get_num_threads())

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""
        scored = self._scorer.score_batch(
            [self._model.source_tokenizer.pieces(ids) for ids in sources],
            [self._model.target_tokenizer.pieces(ids) for ids in targets],
            max_input_length=0,
        )
        return [result.log_probs for result in scored]


class CTranslate2Exporter:
    """Converts to CTranslate2; weights are stored as `compute_type` or float32. See `Exporter`."""

    def __init__(self, compute_type: str = "") -> None:
        self._compute_type = compute_type or "float32"
        if self._compute_type not in _COMPUTE_TYPES:
            raise UserError(
                f"compute_type={compute_type} is not one of {', '.join(_COMPUTE_TYPES)}"
            )

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if CTranslate2 does not support the model."""
        transformer_of(model)
        advice = "use engine=torch or format=onnx"
        widths = model.config.model.head_key_width, model.config.model.head_value_width
        if widths[0] != widths[1]:
            raise UserError(
                f"model.key_width={widths[0]} and model.value_width={widths[1]} differ, which"
                f" CTranslate2 does not support; {advice}"
            )
        source, target = model.source_tokenizer, model.target_tokenizer
        special = target.pieces((target.unknown_id, target.eos_id))
        if source.pieces((source.unknown_id, source.eos_id)) != special:
            raise UserError(
                f"{source.path.name} and {target.path.name} have different unknown or EOS pieces,"
                f" which CTranslate2 does not support; {advice}"
            )

    def write(self, model: TrainedModel, folder: Path) -> None:
        """Write the converted model, without tokenizers."""
        is_exact = self._compute_type == "float32"
        if not is_exact:  # CTranslate2 rounds in place, and its arrays share memory with the model
            model = replace(model, network=copy.deepcopy(model.network))
        spec = _specification(model)
        spec.validate()
        spec.optimize(None if is_exact else self._compute_type)
        spec.save(str(folder))

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write the converted model and its tokenizers into an empty folder."""
        self.write(model, folder)
        for tokenizer in model.tokenizers:
            shutil.copyfile(tokenizer.path, folder / tokenizer.path.name)

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open a converted model."""
        return [self.runtime(model, folder)]

    def runtime(
        self, model: TrainedModel, folder: Path, temporary: TemporaryDirectory[str] | None = None
    ) -> CTranslate2Runtime:
        """Open a converted model; see `CTranslate2Runtime`."""
        if self._compute_type == "float32":
            return CTranslate2Runtime(model, folder, temporary=temporary)
        program = f"CTranslate2 with {self._compute_type}"
        return CTranslate2Runtime(model, folder, program, math.inf, temporary)

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        search, target = model.config.decoding, model.target_tokenizer
        return usage_of(
            "ctranslate2",
            model=model,
            search=search,
            penalty_exponent=penalty_exponent(search),
            is_gnmt=search.length_penalty_kind is LengthPenalty.gnmt,
            suppressed=[[piece] for piece in target.pieces((target.pad_id, target.bos_id))],
        )


def convert(model: TrainedModel, folder: Path) -> None:
    """Write the converted model into an empty folder, and compare it with torch.

    Raises:
        UserError: CTranslate2 does not support the model, or computes other log-probabilities.
    """
    exporter = CTranslate2Exporter()
    exporter.check(model)
    exporter.write(model, folder)
    try:
        verify([exporter.runtime(model, folder)], model)
    except UserError as error:
        raise UserError(f"engine=ctranslate2: {error}; use engine=torch") from None


def _specification(model: TrainedModel) -> transformer_spec.TransformerSpec:
    """Return weights and vocabularies under the names of CTranslate2, in float32."""
    config, transformer = model.config.model, transformer_of(model)
    is_pre_norm = config.norm is NormPlacement.pre
    options = {
        "num_heads": config.num_heads,
        "pre_norm": is_pre_norm,
        "activation": _ACTIVATIONS[config.activation],
        "rotary_dim": config.head_key_width if config.positions is Positions.rotary else None,
    }
    encoder = transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, **options)
    decoder = transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, **options)
    encoder.embeddings[0].weight = _array(transformer.source_embedding.weight)
    decoder.embeddings.weight = _array(transformer.target_embedding.weight)
    decoder.projection.weight = _array(transformer.output_weight)
    if transformer.output_bias is not None:
        decoder.projection.bias = _array(transformer.output_bias)
    decoder.start_from_zero_embedding = config.start is StartEmbedding.zero
    if transformer.source_positions is None or transformer.target_positions is None:
        del encoder.position_encodings  # the constructor always adds it
    else:
        encoder.position_encodings.encodings = _array(transformer.source_positions.table)
        decoder.position_encodings.encodings = _array(transformer.target_positions.table)
    for spec, layer in (
        *zip(encoder.layer, transformer.encoder, strict=True),
        *zip(decoder.layer, transformer.decoder, strict=True),
    ):
        _fill_layer(spec, layer)
    if is_pre_norm:
        _fill_norm(encoder.layer_norm, transformer.encoder_norm)
        _fill_norm(decoder.layer_norm, transformer.decoder_norm)
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(model.source_tokenizer.all_pieces())
    spec.register_target_vocabulary(model.target_tokenizer.all_pieces())
    target = model.target_tokenizer
    special = target.pieces((target.unknown_id, target.bos_id, target.eos_id))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = special
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = transformer.encoder[0].self_attention_residual.norm.eps
    return spec


def _fill_layer(spec: Any, layer: Any) -> None:
    """Copy the weights of an encoder or decoder layer."""
    attention: MultiHeadAttention = layer.self_attention
    projections = [[attention.query, attention.key, attention.value], [attention.output]]
    _fill_attention(spec.self_attention, attention, projections)
    _fill_norm(spec.self_attention.layer_norm, layer.self_attention_residual.norm)
    if hasattr(layer, "cross_attention"):
        attention = layer.cross_attention
        projections = [[attention.query], [attention.key, attention.value], [attention.output]]
        _fill_attention(spec.attention, attention, projections)
        _fill_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    _fill_linear(spec.ffn.linear_0, [layer.feed_forward.inner])
    _fill_linear(spec.ffn.linear_1, [layer.feed_forward.outer])
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_attention(
    spec: Any, attention: MultiHeadAttention, projections: Sequence[Sequence[nn.Linear]]
) -> None:
    for linear, layers in zip(spec.linear, projections, strict=True):
        _fill_linear(linear, layers)
    # CTranslate2's own factor is right only for heads of width D / H.
    spec.queries_scale = 1 / math.sqrt(attention.query.out_features // attention.num_heads)


def _fill_linear(spec: Any, layers: Sequence[nn.Linear]) -> None:
    """Concatenate layers with the same input."""
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float32).numpy()
