"""What holds for every architecture and variant."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from nmt.base.errors import UserError
from nmt.config import (
    Activation,
    Architecture,
    AttentionKind,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.model.decoder_state import DecoderState
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model
from nmt.translation.translator import Translator
from tests.support import (
    made_up_sentences,
    mask_of,
    random_ids,
    tiny_model_config,
    tiny_trained_model,
    tiny_transformer,
)

PAD = 0

VARIANTS: dict[str, dict[str, Any]] = {
    **{
        f"{positions.name}-{norm.name}": {"positions": positions, "norm": norm}
        for positions in Positions
        for norm in NormPlacement
    },
    "widths": {"key_width": 6, "value_width": 10},
    "widths-rotary-pre": {
        "key_width": 6,
        "value_width": 10,
        "positions": Positions.rotary,
        "norm": NormPlacement.pre,
    },
    "marian": {
        "activation": Activation.silu,
        "output_bias": True,
        "start": StartEmbedding.zero,
        "timescales": Timescales.marian,
    },
    "experts": {"num_experts": 4},
    "window": {"attention_window": 4},
    "window-rotary-pre": {
        "attention_window": 3,
        "positions": Positions.rotary,
        "norm": NormPlacement.pre,
    },
    "gelu-untied": {"activation": Activation.gelu, "tied_embeddings": TiedEmbeddings.none},
    **{
        f"recurrent-{attention.name}": {
            "architecture": Architecture.recurrent,
            "attention": attention,
            "num_encoder_layers": 3,  # the third layer of a stack has a residual connection
            "num_decoder_layers": 3,
        }
        for attention in AttentionKind
    },
    "recurrent-two": {
        "architecture": Architecture.recurrent,
        "key_width": 6,
        "tied_embeddings": TiedEmbeddings.none,
        "output_bias": True,
    },
    "convolutional": {"architecture": Architecture.convolutional},
    "convolutional-untied": {
        "architecture": Architecture.convolutional,
        "kernel_width": 4,
        "tied_embeddings": TiedEmbeddings.none,
    },
    # Three blocks read 7 positions on each side.
    "bytenet": {
        "architecture": Architecture.bytenet,
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
    },
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> Iterator[EncoderDecoder]:
    with torch.no_grad():
        yield tiny_transformer(tiny_model_config(**request.param))


def test_stepping_with_a_cache_equals_decoding_at_once(model: EncoderDecoder) -> None:
    length = 40  # more slots than the cache has at first
    source_mask = mask_of([7, 4, 6])
    memory = model.encode(random_ids(3, 7), source_mask)
    target = random_ids(3, length, seed=2)
    expected = model.project(model.decode(target, memory, source_mask))
    state = model.start(memory, source_mask)
    for position in range(length):
        assert state.position == position
        logits, state = model.step(target[:, position], state)
        torch.testing.assert_close(logits, expected[:, position])


def test_rows_that_branch_and_end_equal_decoding_their_prefixes(model: EncoderDecoder) -> None:
    """Rows branch and sentences end at random, so that some are not yet dropped from the state."""
    choose = random.Random(2)
    lengths = [3 + number % 5 for number in range(20)]
    source, source_mask = random_ids(20, 7), mask_of(lengths)
    memory = model.encode(source, source_mask)
    state = model.start(memory, source_mask)
    sentences, prefixes = list(range(20)), torch.empty(20, 0, dtype=torch.long)
    most_ended = 0
    for step in range(20):
        tokens = random_ids(len(sentences), seed=10 + step)
        logits, state = model.step(tokens, state)
        prefixes = torch.cat((prefixes, tokens[:, None]), dim=1)
        hidden = model.decode(prefixes, memory[sentences], source_mask[sentences])
        torch.testing.assert_close(logits, model.project(hidden[:, -1]))
        most_ended = max(most_ended, state.grid.num_sentences - len(set(sentences)))
        live = [s for s in sorted(set(sentences)) if choose.random() > 0.07]
        rows = [
            row
            for sentence in live
            for row in choose.choices(
                [r for r, s in enumerate(sentences) if s == sentence], k=choose.randint(1, 3)
            )
        ]
        state = state.reorder(torch.tensor(rows))
        sentences, prefixes = [sentences[row] for row in rows], prefixes[rows]
    assert most_ended > 0 or not isinstance(state, DecoderState)
    assert state.grid.num_sentences < 20
    assert sentences


def test_padding_does_not_change_the_output(model: EncoderDecoder) -> None:
    source, target = random_ids(1, 5), random_ids(1, 6, seed=2)
    alone = model(source, mask_of([5]), target)
    longer = torch.cat((source, torch.full((1, 4), PAD)), dim=1)
    batch = torch.cat((longer, random_ids(1, 9, seed=5)))
    targets = torch.cat((F.pad(target, (0, 3), value=PAD), random_ids(1, 9, seed=6)))
    together = model(batch, mask_of([5, 9]), targets)
    torch.testing.assert_close(together[:1, :6], alone)


def test_a_target_token_does_not_change_earlier_positions(model: EncoderDecoder) -> None:
    source, source_mask, target = random_ids(2, 5), mask_of([5, 5]), random_ids(2, 8, seed=2)
    before = model(source, source_mask, target)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] % 22) + 1
    after = model(source, source_mask, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    difference = (before[:, 4:] - after[:, 4:]).abs().amax(dim=-1)
    assert (difference > 1e-6).all()


def test_every_source_token_reaches_every_target_position(model: EncoderDecoder) -> None:
    source, source_mask, target = random_ids(1, 5), mask_of([5]), random_ids(1, 4, seed=2)
    before = model(source, source_mask, target)
    for index in range(5):
        changed = source.clone()
        changed[0, index] = (changed[0, index] % 22) + 1
        difference = (model(changed, source_mask, target) - before).abs().amax(dim=-1)
        assert (difference > 1e-6).all()


def test_threads_do_not_see_the_attention_maps_of_each_other(model: EncoderDecoder) -> None:
    if model.config.architecture is Architecture.bytenet:
        return
    inputs = [(random_ids(1, n), mask_of([n]), random_ids(1, 4, seed=2)) for n in (3, 5, 8, 13)]
    expected = [model.attention_maps(*one) for one in inputs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: model.attention_maps(*one), inputs * 5))
    for maps, wanted in zip(found, expected * 5, strict=True):
        torch.testing.assert_close(maps, wanted)


def test_attention_maps_are_distributions_over_real_tokens(model: EncoderDecoder) -> None:
    source, source_mask, target = random_ids(2, 6), mask_of([6, 3]), random_ids(2, 5, seed=2)
    if model.config.architecture is Architecture.bytenet:
        assert model.num_attention_layers == 0
        with pytest.raises(UserError, match=r"model\.architecture=bytenet has no attention"):
            model.attention_maps(source, source_mask, target)
        return
    maps = model.attention_maps(source, source_mask, target)
    config = model.config
    heads = config.num_heads if config.architecture is Architecture.transformer else 1
    shapes = {"encoder": (6, 6), "decoder": (5, 5), "cross": (5, 6)}
    for name, layers in maps.items():
        for layer in layers:
            assert layer.shape == (2, heads, *shapes[name])
            torch.testing.assert_close(layer.sum(dim=-1), torch.ones_like(layer[..., 0]))
            if name == "decoder":
                assert (layer.triu(diagonal=1) == 0).all()
            else:
                assert (layer[1, :, :3, 3:] == 0).all()
    assert len(maps["cross"]) == model.num_attention_layers > model.aligning_layer >= 0
    is_transformer = config.architecture is Architecture.transformer
    assert (set(maps) == set(shapes)) == is_transformer


@pytest.mark.parametrize("architecture", Architecture)
def test_a_stored_model_translates_alike_in_any_batch(
    architecture: Architecture, tokenizer_path: Path, tmp_path: Path
) -> None:
    model = tiny_trained_model(tokenizer_path, architecture=architecture)
    save_trained_model(model, tmp_path / "model", {})
    loaded = load_trained_model(tmp_path / "model")
    texts = made_up_sentences(7, seed=3)
    expected = [translated(model, [text], 1)[0] for text in texts]
    assert len(set(expected)) > 1
    for batch_size in (3, 7):
        assert translated(loaded, texts, batch_size) == expected
        assert translated(loaded, texts[::-1], batch_size) == expected[::-1]


def translated(model: TrainedModel, texts: list[str], batch_size: int) -> list[str]:
    config = replace(model.config.decoding, batch_size=batch_size)
    return [best[0].text for best in Translator(model, config).translate(texts)]
