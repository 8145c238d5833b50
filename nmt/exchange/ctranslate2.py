"""Conversion of a trained model to CTranslate2, verified against torch.

The vocabularies of CTranslate2 are the pieces of our tokenizers in the order of their ids. It adds
EOS to a source itself and starts the decoder from BOS.
"""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs.common_spec import Activation as CTranslate2Activation
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor, nn

from nmt.base.errors import UserError
from nmt.base.layout import README_FILE
from nmt.config import Activation, LengthPenalty, NormPlacement, Positions, StartEmbedding
from nmt.model.attention import MultiHeadAttention
from nmt.search.hypothesis import penalty_exponent
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.ctranslate2_engine import open_translator
from nmt.translation.forced import ForcedDecoder

# Float32 arithmetic in another order differs by 1e-5 nats per token; a missing factor or offset by
# tenths and more.
_TOLERANCE, _RELATIVE_TOLERANCE = 1e-3, 1e-4
_CHECKED_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
_ACTIVATIONS = {
    Activation.relu: CTranslate2Activation.RELU,
    Activation.gelu: CTranslate2Activation.GELU,
    Activation.silu: CTranslate2Activation.SWISH,
}


def convert(model: TrainedModel, folder: Path) -> None:
    """Write the converted model into an empty folder, and compare its scores with those of torch.

    Raises:
        UserError: CTranslate2 does not support the model, or its scores differ.
    """
    spec = _specification(model)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    difference = _largest_difference(model, folder)
    if not difference <= 1:  # also if it is NaN
        raise UserError(
            f"scores of CTranslate2 differ from those of torch by {difference:,.1f} times the"
            f" tolerance of {_TOLERANCE} nats per token; use engine=torch"
        )


def export(model: TrainedModel, folder: Path) -> None:
    """Write the converted model, its tokenizers and a README into an empty folder."""
    convert(model, folder)
    for tokenizer in (model.source_tokenizer, model.target_tokenizer):
        shutil.copyfile(tokenizer.path, folder / tokenizer.path.name)
    (folder / README_FILE).write_text(_readme(model), encoding="utf-8")


def _readme(model: TrainedModel) -> str:
    config, search, target = model.config, model.config.decoding, model.target_tokenizer
    suppressed = [[piece] for piece in target.pieces((target.pad_id, target.bos_id))]
    is_gnmt = search.length_penalty_kind is LengthPenalty.gnmt
    penalty = "((5 + n) / 6) ** alpha" if is_gnmt else "the same penalty"
    return f"""# Translator {config.source_language}-{config.target_language} for CTranslate2

    import ctranslate2, sentencepiece

    source = sentencepiece.SentencePieceProcessor(model_file="{model.source_tokenizer.path.name}")
    target = sentencepiece.SentencePieceProcessor(model_file="{target.path.name}")
    translator = ctranslate2.Translator(".", compute_type="float32")
    results = translator.translate_batch(
        source.encode(["A sentence."], out_type=str),
        beam_size={search.beam_size},
        length_penalty={penalty_exponent(search)},
        min_decoding_length={max(0, search.min_length - 1)},
        max_decoding_length={config.model.max_length},
        disable_unk=True,
        suppress_sequences={suppressed},
    )
    print(target.decode(results[0].hypotheses[0]))

The tokens are the pieces of the tokenizers in this folder; CTranslate2 adds EOS and BOS. Sources
have at most {config.max_source_length - 1} tokens.

CTranslate2 divides the log-probability of n tokens by n ** alpha. The scores in the model folder
were computed with {penalty} and translations of at most
{search.max_length_ratio:g} times the source plus {search.max_length_offset} tokens.
"""


def _largest_difference(model: TrainedModel, folder: Path) -> float:
    """Return the largest difference of token scores on random sentences, in tolerances."""
    generator = torch.Generator().manual_seed(1)
    config, tokenizers = model.config, (model.source_tokenizer, model.target_tokenizer)
    limits = (config.max_source_length - 1, config.model.max_length - 1)
    lengths = (_CHECKED_LENGTHS, _CHECKED_LENGTHS[::-1])
    sources, targets = (
        [_random_ids(tokenizer, min(length, limit), generator) for length in side]
        for tokenizer, limit, side in zip(tokenizers, limits, lengths, strict=True)
    )
    reference = ForcedDecoder(model).token_log_probs(list(zip(sources, targets, strict=True)))
    source_pieces, target_pieces = (
        list(map(tokenizer.pieces, side))
        for tokenizer, side in zip(tokenizers, (sources, targets), strict=True)
    )
    translator = open_translator(
        folder, compute_type="float32", intra_threads=torch.get_num_threads()
    )
    scored = translator.score_batch(source_pieces, target_pieces, max_input_length=0)
    expected = torch.tensor([value for values in reference for value in values])
    found = torch.tensor([value for result in scored for value in result.log_probs])
    if found.shape != expected.shape:
        return float("inf")
    allowed = _TOLERANCE + _RELATIVE_TOLERANCE * expected.abs()
    return float(((expected - found).abs() / allowed).max())


def _random_ids(tokenizer: Tokenizer, length: int, generator: torch.Generator) -> list[int]:
    special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id)
    ordinary = [i for i in range(tokenizer.vocabulary_size) if i not in special]
    drawn = torch.randint(len(ordinary), (length,), generator=generator).tolist()
    return [ordinary[index] for index in drawn]


def _specification(model: TrainedModel) -> TransformerSpec:
    """Return weights and vocabularies under the names of CTranslate2, in float32."""
    config, transformer = model.config.model, model.transformer
    if config.head_key_width != config.head_value_width:
        raise UserError(
            f"model.key_width={config.head_key_width} and model.value_width="
            f"{config.head_value_width} differ, which CTranslate2 does not support; use"
            " engine=torch"
        )
    is_rotary = config.positions is Positions.rotary
    is_pre_norm = config.norm is NormPlacement.pre
    options = {
        "num_heads": config.num_heads,
        "pre_norm": is_pre_norm,
        "activation": _ACTIVATIONS[config.activation],
        "rotary_dim": config.head_key_width if is_rotary else None,
    }
    encoder = TransformerEncoderSpec(config.num_encoder_layers, **options)
    decoder = TransformerDecoderSpec(config.num_decoder_layers, **options)
    encoder.embeddings[0].weight = _array(transformer.source_embedding.weight)
    decoder.embeddings.weight = _array(transformer.target_embedding.weight)
    decoder.projection.weight = _array(transformer.output_weight)
    if transformer.output_bias is not None:
        decoder.projection.bias = _array(transformer.output_bias)
    decoder.start_from_zero_embedding = config.start is StartEmbedding.zero
    source, target = transformer.source_positions, transformer.target_positions
    if source is None or target is None:
        del encoder.position_encodings  # the constructor always adds it
    else:
        encoder.position_encodings.encodings = _array(source.table)
        decoder.position_encodings.encodings = _array(target.table)
    for spec, layer in (
        *zip(encoder.layer, transformer.encoder, strict=True),
        *zip(decoder.layer, transformer.decoder, strict=True),
    ):
        _fill_layer(spec, layer)
    if is_pre_norm:
        _fill_norm(encoder.layer_norm, transformer.encoder_norm)
        _fill_norm(decoder.layer_norm, transformer.decoder_norm)
    spec = TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(model.source_tokenizer.all_pieces())
    spec.register_target_vocabulary(model.target_tokenizer.all_pieces())
    _set_special_tokens(spec.config, model)
    return spec


def _set_special_tokens(config: Any, model: TrainedModel) -> None:
    source, target = model.source_tokenizer, model.target_tokenizer
    unknown, bos, eos = target.pieces((target.unknown_id, target.bos_id, target.eos_id))
    if source.pieces((source.unknown_id, source.eos_id)) != [unknown, eos]:
        raise UserError(
            f"{source.path.name} and {target.path.name} have different unknown or EOS pieces, which"
            " CTranslate2 does not support; use engine=torch"
        )
    config.unk_token, config.bos_token, config.eos_token = unknown, bos, eos
    config.decoder_start_token = bos
    config.add_source_eos = True
    norms = (m for m in model.transformer.modules() if isinstance(m, nn.LayerNorm))
    config.layer_norm_epsilon = next(norms).eps


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
    # The default assumes that the width of a head is the model width / number of heads.
    spec.queries_scale = 1 / math.sqrt(attention.query.out_features // attention.num_heads)


def _fill_linear(spec: Any, layers: Sequence[nn.Linear]) -> None:
    """Concatenate layers with the same input."""
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor | nn.Module) -> Any:
    assert isinstance(tensor, Tensor)
    return tensor.detach().to("cpu", torch.float32).numpy()
