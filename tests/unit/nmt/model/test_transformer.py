import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.plain_transformer import PlainTransformer, take_weights
from nmt.config import Activation, ModelConfig, NormPlacement, Positions, TiedEmbeddings
from nmt.model.attention import MultiHeadAttention
from nmt.model.layers import DecoderLayer
from nmt.model.positions import sinusoidal_table
from nmt.model.transformer import Transformer, count_parameters, planned_parameters
from tests.support import tiny_model_config, tiny_transformer

VOCABULARY = 23
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
    "gelu-untied": {"activation": Activation.gelu, "tied_embeddings": TiedEmbeddings.none},
}
variants = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())


def model_of(variant: dict[str, Any]) -> Transformer:
    return tiny_transformer(tiny_model_config(**variant), VOCABULARY)


def random_ids(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, shape, generator=generator)


def mask_of(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_gradients_come_in_the_opposite_order_of_use(
    norm: NormPlacement, tied: TiedEmbeddings
) -> None:
    model = model_of({"norm": norm, "tied_embeddings": tied})
    by_use = model.parameters_by_use()
    assert sorted(map(id, by_use)) == sorted(map(id, model.parameters()))
    parts = ["source_embedding", "encoder", "encoder_norm", "target_embedding"]
    parts += ["decoder", "decoder_norm"]
    part_of = {model.output_weight: "output"}
    part_of |= {p: part for part in reversed(parts) for p in getattr(model, part).parameters()}
    came: list[str] = []
    for parameter in by_use:
        parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda parameter: came.append(part_of[parameter])
        )
    source = random_ids(2, 5)
    hidden = model(source, torch.ones_like(source, dtype=torch.bool), random_ids(2, 4))
    model.project(hidden).square().sum().backward()
    assert came == [part_of[parameter] for parameter in reversed(by_use)]


@variants
@torch.no_grad()
def test_stepping_with_a_cache_equals_decoding_at_once(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    length = 40  # more than the cache's first capacity
    source_mask = mask_of([7, 4, 6])
    memory = model.encode(random_ids(3, 7), source_mask)
    target = random_ids(3, length, seed=2)
    expected = model.project(model.decode(target, memory, source_mask))
    state = model.start(memory, source_mask)
    for position in range(length):
        assert state.positions == position
        logits, state = model.step(target[:, position], state)
        torch.testing.assert_close(logits, expected[:, position])


@variants
@torch.no_grad()
def test_reordered_rows_go_on_as_their_own_prefix(variant: dict[str, Any]) -> None:
    """Beams are exchanged inside their sentence, and a sentence leaves, as in beam search."""
    model = model_of(variant)
    num_beams = 2
    source, source_mask = random_ids(3, 7), mask_of([7, 4, 6])
    memory = model.encode(source, source_mask)
    prefixes = random_ids(6, 3, seed=3)
    state = model.start(memory, source_mask).reorder(torch.arange(3).repeat_interleave(num_beams))
    for position in range(3):
        _, state = model.step(prefixes[:, position], state)
    rows, sentences = torch.tensor([1, 1, 5, 4]), torch.tensor([0, 0, 2, 2])
    tokens = random_ids(4, seed=4)
    logits, _ = model.step(tokens, state.reorder(rows))
    target = torch.cat((prefixes[rows], tokens[:, None]), dim=1)
    hidden = model.decode(target, memory[sentences], source_mask[sentences])
    torch.testing.assert_close(logits, model.project(hidden[:, -1]))


@variants
@torch.no_grad()
def test_sentences_may_have_unlike_numbers_of_rows_and_enter_late(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, source_mask = random_ids(3, 7), mask_of([4, 7, 6])
    memory = model.encode(source, source_mask)
    tokens = random_ids(12, 8, seed=3)
    # Sentence 0 alone for two steps, with two rows from then on; then 1 comes in, and two steps
    # later 2; 0 leaves.
    state = model.start(memory[:1, :4], source_mask[:1, :4])
    _, state = model.step(tokens[:1, 0], state)
    state = state.reorder(torch.tensor([0, 0]))
    _, state = model.step(tokens[:2, 1], state)
    state = state.append(model.start(memory[1:2], source_mask[1:2]))
    _, state = model.step(tokens[:3, 2], state)
    state = state.reorder(torch.tensor([2, 2, 2]))
    _, state = model.step(tokens[:3, 3], state)
    state = state.append(model.start(memory[2:3, :6], source_mask[2:3, :6]))
    assert [len(cache.keys) for cache in state.caches] == [2] * len(state.caches)
    logits, state = model.step(tokens[:4, 4], state)
    prefixes = [[tokens[2, 2], tokens[row, 3], tokens[row, 4]] for row in range(3)]
    hidden = model.decode(
        torch.tensor(prefixes), *(part[[1, 1, 1]] for part in (memory, source_mask))
    )
    torch.testing.assert_close(logits[:3], model.project(hidden[:, -1]))
    hidden = model.decode(tokens[3:4, 4:5], memory[2:], source_mask[2:])
    torch.testing.assert_close(logits[3:], model.project(hidden[:, -1]))


@variants
@torch.no_grad()
def test_rows_of_many_sentences_that_come_and_go_are_as_decoded_at_once(
    variant: dict[str, Any],
) -> None:
    """Sentences branch, leave and enter at random, so that some are gone and not yet dropped."""
    model, choose = model_of(variant), random.Random(2)
    lengths = [3 + number % 5 for number in range(26)]
    source, source_mask = random_ids(26, 7), mask_of(lengths)
    memory = model.encode(source, source_mask)
    state = model.start(memory[:20], source_mask[:20])
    sentences, histories = list(range(20)), [torch.empty(0, dtype=torch.long)] * 20
    most_gone = 0
    for step in range(24):
        if step in (9, 17):
            first = 20 if step == 9 else 23
            fresh = slice(first, first + 3)
            state = state.append(model.start(memory[fresh], source_mask[fresh]))
            sentences += range(first, first + 3)
            histories += [torch.empty(0, dtype=torch.long)] * 3
        tokens = random_ids(len(sentences), seed=10 + step)
        logits, state = model.step(tokens, state)
        histories = [
            torch.cat((past, token[None])) for past, token in zip(histories, tokens, strict=True)
        ]
        targets = torch.nn.utils.rnn.pad_sequence(histories, batch_first=True)
        hidden = model.decode(targets, memory[sentences], source_mask[sentences])
        ends = [len(history) - 1 for history in histories]
        expected = model.project(hidden[torch.arange(len(ends)), ends])
        torch.testing.assert_close(logits, expected)
        most_gone = max(most_gone, len(state.memory_mask) - len(set(sentences)))
        staying = [s for s in sorted(set(sentences)) if choose.random() > 0.07]
        kept = [
            row
            for sentence in staying
            for row in choose.choices([r for r, s in enumerate(sentences) if s == sentence], k=3)
        ]
        kept = [row for place, row in enumerate(kept) if place % 3 == 0 or choose.random() > 0.4]
        state = state.reorder(torch.tensor(kept))
        sentences = [sentences[row] for row in kept]
        histories = [histories[row] for row in kept]
    assert most_gone > 0
    assert sentences


@torch.no_grad()
def test_coverage_is_the_attention_that_each_source_token_has_had() -> None:
    model = model_of({"num_decoder_layers": 2})
    source, source_mask = random_ids(2, 7), mask_of([4, 7])
    memory = model.encode(source, source_mask)
    tokens = random_ids(3, 4, seed=3)
    state = model.start(memory[:1, :4], source_mask[:1, :4], keeps_coverage=True)
    _, state = model.step(tokens[:1, 0], state)
    state = state.append(model.start(memory[1:], source_mask[1:], keeps_coverage=True))
    state = state.reorder(torch.tensor([0, 1, 1]))
    for position in (1, 2):
        _, state = model.step(tokens[:, position], state)
    rows, sentences = [tokens[0, :3], *tokens[1:, 1:3]], [0, 1, 1]
    for row, (prefix, sentence) in enumerate(zip(rows, sentences, strict=True)):
        which = slice(sentence, sentence + 1)
        maps = model.attention_maps(source[which], source_mask[which], prefix[None])
        had = maps["cross"][model.aligning_layer][0].mean(dim=0).sum(dim=0).float()  # (S,)
        assert state.coverage is not None
        torch.testing.assert_close(state.coverage[row], had)
        length = int(source_mask[sentence].sum())
        expected = had[: length - 1].clamp(max=1).log().sum()
        torch.testing.assert_close(state.covered()[row], expected)


@variants
@torch.no_grad()
def test_padding_changes_nothing(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, target = random_ids(1, 5), random_ids(1, 6, seed=2)
    alone = model(source, mask_of([5]), target)
    longer = torch.cat((source, torch.full((1, 4), PAD)), dim=1)
    batch = torch.cat((longer, random_ids(1, 9, seed=5)))
    targets = torch.cat((F.pad(target, (0, 3), value=PAD), random_ids(1, 9, seed=6)))
    together = model(batch, mask_of([5, 9]), targets)
    torch.testing.assert_close(together[:1, :6], alone)


@variants
@torch.no_grad()
def test_a_target_token_changes_no_earlier_position(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, source_mask, target = random_ids(2, 5), mask_of([5, 5]), random_ids(2, 8, seed=2)
    before = model(source, source_mask, target)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] % (VOCABULARY - 1)) + 1
    after = model(source, source_mask, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    difference = (before[:, 4:] - after[:, 4:]).abs().amax(dim=-1)
    assert (difference > 1e-6).all()


@variants
@torch.no_grad()
def test_every_source_token_reaches_every_target_position(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, source_mask, target = random_ids(1, 5), mask_of([5]), random_ids(1, 4, seed=2)
    before = model(source, source_mask, target)
    for place in range(5):
        changed = source.clone()
        changed[0, place] = (changed[0, place] % (VOCABULARY - 1)) + 1
        difference = (model(changed, source_mask, target) - before).abs().amax(dim=-1)
        assert (difference > 1e-6).all()


@pytest.mark.parametrize("positions", list(Positions))
@torch.no_grad()
def test_the_order_of_the_source_matters(positions: Positions) -> None:
    model = model_of({"positions": positions})
    source, mask, target = torch.tensor([[3, 4, 5, 6]]), mask_of([4]), random_ids(1, 3)
    there, back = model(source, mask, target), model(source.flip(1), mask, target)
    assert not torch.allclose(there, back)


@variants
@torch.no_grad()
def test_attention_maps_are_distributions_over_what_is_real(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    source, source_mask, target = random_ids(2, 6), mask_of([6, 3]), random_ids(2, 5, seed=2)
    maps = model.attention_maps(source, source_mask, target)
    shapes = {"encoder": (2, 2, 6, 6), "decoder": (2, 2, 5, 5), "cross": (2, 2, 5, 6)}
    for name, shape in shapes.items():
        assert len(maps[name]) == 2
        for layer in maps[name]:
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(dim=-1), torch.ones(shape[:3], dtype=layer.dtype))
    for layer in (*maps["encoder"], *maps["cross"]):
        assert (layer[1, :, :, 3:] == 0).all()
    for layer in maps["decoder"]:
        assert (layer.triu(diagonal=1) == 0).all()


@variants
@torch.no_grad()
def test_attention_maps_are_the_weights_that_decoding_uses(variant: dict[str, Any]) -> None:
    """The last layer's cross-attention, computed again from what goes into it."""
    model = model_of(variant)
    source, source_mask, target = random_ids(2, 6), mask_of([6, 3]), random_ids(2, 5, seed=2)
    seen: list[Tensor] = []

    def keep(layer: MultiHeadAttention, given: tuple[Tensor, ...]) -> None:
        queries, memory, mask = given
        seen.append(layer.weights(queries, memory, mask))

    last = model.decoder[-1]
    assert isinstance(last, DecoderLayer)
    handle = last.cross_attention.register_forward_pre_hook(keep)  # type: ignore[arg-type]
    model(source, source_mask, target)
    handle.remove()
    torch.testing.assert_close(
        model.attention_maps(source, source_mask, target)["cross"][-1], seen[0]
    )


def copy_of(model: Transformer, config: ModelConfig) -> nn.Transformer:
    """torch's Transformer with the weights of ours."""
    theirs = PlainTransformer(config, VOCABULARY, PAD).transformer.double()
    take_weights(theirs, model)
    return theirs


@pytest.mark.parametrize("norm", list(NormPlacement))
@torch.no_grad()
def test_it_equals_the_transformer_of_torch(norm: NormPlacement) -> None:
    config = tiny_model_config(norm=norm)
    model = tiny_transformer(config, VOCABULARY)
    theirs = copy_of(model, config)
    source, source_mask, target = random_ids(3, 7), mask_of([7, 4, 6]), random_ids(3, 5, seed=2)

    def embedded(ids: Tensor) -> Tensor:
        # Section 3.4's factor and section 3.5's table, written out.
        table = sinusoidal_table(ids.size(1), config.width).double()
        return model.source_embedding.weight[ids] * math.sqrt(config.width) + table

    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    expected = theirs(
        embedded(source),
        embedded(target),
        tgt_mask=causal,
        src_key_padding_mask=~source_mask,
        memory_key_padding_mask=~source_mask,
    )
    torch.testing.assert_close(model(source, source_mask, target), expected)


def papers_model(width: int, num_heads: int, feed_forward_width: int) -> Transformer:
    config = ModelConfig(
        width=width, num_heads=num_heads, feed_forward_width=feed_forward_width, max_length=512
    )
    with torch.device("meta"):
        return Transformer(config, 37_000, 37_000)


def test_base_has_the_papers_65_million_parameters() -> None:
    # 63,082,496: the paper's table rounds to 65 million; its 37,000 pieces are approximate too.
    count = count_parameters(papers_model(512, 8, 2048))
    assert count == 63_082_496
    assert abs(count - 65e6) / 65e6 < 0.04


def test_big_has_the_papers_213_million_parameters() -> None:
    count = count_parameters(papers_model(1024, 16, 4096))
    assert count == 214_245_376
    assert abs(count - 213e6) / 213e6 < 0.04


@pytest.mark.parametrize(
    ("tied", "num_matrices"),
    [(TiedEmbeddings.three_way, 1), (TiedEmbeddings.target, 2), (TiedEmbeddings.none, 3)],
)
def test_tied_matrices_are_one(tied: TiedEmbeddings, num_matrices: int) -> None:
    model = model_of({"tied_embeddings": tied})
    matrices = (model.source_embedding.weight, model.target_embedding.weight, model.output_weight)
    assert len({id(matrix) for matrix in matrices}) == num_matrices
    none = model_of({"tied_embeddings": TiedEmbeddings.three_way})
    extra = (num_matrices - 1) * VOCABULARY * 16
    assert count_parameters(model) == count_parameters(none) + extra


@pytest.mark.parametrize("tied", [TiedEmbeddings.target, TiedEmbeddings.none])
@pytest.mark.parametrize("norm", list(NormPlacement))
@pytest.mark.parametrize("positions", list(Positions))
def test_parameters_are_counted_before_there_are_any(
    tied: TiedEmbeddings, norm: NormPlacement, positions: Positions
) -> None:
    config = tiny_model_config(
        tied_embeddings=tied,
        norm=norm,
        positions=positions,
        num_encoder_layers=3,
        key_width=6,
        value_width=10,
    )
    assert planned_parameters(config, 11, 13) == count_parameters(Transformer(config, 11, 13))
    config = tiny_model_config(norm=norm, positions=positions)
    assert planned_parameters(config, 11, 11) == count_parameters(Transformer(config, 11, 11))


def test_source_and_target_may_have_vocabularies_of_their_own() -> None:
    config = tiny_model_config(tied_embeddings=TiedEmbeddings.target)
    model = Transformer(config, 11, 13)
    hidden = model(torch.tensor([[10]]), mask_of([1]), torch.tensor([[12, 3]]))
    assert model.project(hidden).shape == (1, 2, 13)


def test_dropout_falls_in_training_only() -> None:
    model = tiny_transformer(tiny_model_config(dropout=0.3), VOCABULARY)
    inputs = random_ids(2, 5), mask_of([5, 5]), random_ids(2, 4)
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


def test_embeddings_enter_at_the_size_of_the_positions() -> None:
    torch.manual_seed(0)
    model = Transformer(tiny_model_config(width=64), 500, 500)
    assert float(model.source_embedding.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.05)
    assert all(not p.any() for n, p in model.named_parameters() if ".query.bias" in n)
