import random

import pytest
import torch

from nmt.model.rows import RowGrid
from nmt.model.slots import SharedSlots, slot_capacity


def grid_of(sentences: list[int]) -> RowGrid:
    return RowGrid.of(torch.tensor(sentences), 1 + max(sentences))


def test_rows_that_branch_off_share_what_they_had_before() -> None:
    slots = SharedSlots.none(1, None)
    one, three = [0], [0, 0, 0]
    for place in range(2):
        places, mask = slots.take(torch.tensor(one), grid_of(one))
        assert places.tolist() == [place]
        assert mask.tolist() == [[[[True] * (place + 1)]]]
    slots.keep(torch.tensor([0, 0, 0]))
    places, mask = slots.take(torch.tensor(three), grid_of(three))
    assert places.tolist() == [2, 3, 4]
    assert mask[0, 0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]]
    # The second goes on twice, the others end: their slots are free again.
    slots.keep(torch.tensor([1, 1]))
    places, mask = slots.take(torch.tensor(three[:2]), grid_of(three[:2]))
    assert places.tolist() == [2, 4]
    assert mask[0, 0].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]]


def test_places_are_those_of_a_table_of_all_sentences() -> None:
    slots = SharedSlots.none(3, None)
    sentences = [0, 2, 2]
    places, mask = slots.take(torch.tensor(sentences), grid_of(sentences))
    assert places.tolist() == [0, 64, 65]
    assert mask.shape == (3, 1, 2, 2)
    assert mask[0, 0].tolist() == [[True, False], [False, False]]  # one row
    assert not mask[1].any()  # none
    assert mask[2, 0].tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("seed", range(5))
def test_every_row_keeps_the_tokens_of_its_own_history(seed: int) -> None:
    """Rows are continued, dropped and joined by others at random, as in a search."""
    choose = random.Random(seed)
    slots, sentences = SharedSlots.none(2, None), [0, 1]
    histories: list[list[int]] = [[], []]
    written: dict[int, int] = {}  # place in (sentence, slot) order → token
    for step in range(60):
        if step in (7, 31):
            slots.add(SharedSlots.none(1, None))
            histories.append([])
            sentences.append(max(sentences) + 1)
        capacity = slots.capacity
        places, mask = slots.take(torch.tensor(sentences), grid_of(sentences))
        if slots.capacity != capacity:
            written = {
                place // capacity * slots.capacity + place % capacity: token
                for place, token in written.items()
            }
        tokens = [100 * step + row for row in range(len(sentences))]
        written.update(zip(places.tolist(), tokens, strict=True))
        histories = [[*past, token] for past, token in zip(histories, tokens, strict=True)]
        for row, history in enumerate(histories):
            sentence = sentences[row]
            rank = row - sentences.index(sentence)
            held = mask[sentence, 0, rank].nonzero().flatten().tolist()
            assert sorted(written[sentence * slots.capacity + at] for at in held) == history
        kept = choose.choices(range(len(sentences)), k=choose.randint(1, 6))
        # A row of each sentence at least: what drops sentences is not here.
        kept = sorted([*kept, *(sentences.index(sentence) for sentence in set(sentences))])
        slots.keep(torch.tensor(kept))
        histories = [histories[row] for row in kept]
        sentences = [sentences[row] for row in kept]
    assert slots.capacity == slot_capacity(slots.capacity)


def test_a_table_grows_by_steps() -> None:
    assert [slot_capacity(most) for most in (1, 32, 33, 100)] == [32, 32, 64, 128]
    slots = SharedSlots.none(2, None)
    one_each = [0, 1]
    for _ in range(32):
        slots.take(torch.tensor(one_each), grid_of(one_each))
    assert slots.capacity == 32
    places, mask = slots.take(torch.tensor(one_each), grid_of(one_each))
    assert (slots.capacity, places.tolist(), mask.size(-1)) == (64, [32, 96], 33)


def test_a_table_forgets_slots_behind_the_last_in_use() -> None:
    slots = SharedSlots(torch.zeros(2, 128, dtype=torch.bool))
    slots.holds[1, 40] = True
    slots.shrink()
    assert slots.capacity == 64
    slots.keep(torch.tensor([0, 0]))
    slots.shrink()
    assert slots.capacity == 32
