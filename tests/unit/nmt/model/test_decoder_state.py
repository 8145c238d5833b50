import torch

from nmt.model.decoder_state import Slots
from nmt.search.rows import RowGrid


def allocate(slots: Slots, sentences: list[int]) -> tuple[list[int], torch.Tensor]:
    """The indices written and the (B, K, M') mask."""
    index = torch.tensor(sentences)
    slots.allocate(index, RowGrid.of(index, 1 + max(sentences)))
    return slots.written.tolist(), slots.mask[:, 0]


def keep(slots: Slots, rows: list[int]) -> None:
    slots.used = slots.used[rows]


def test_rows_that_branch_share_the_slots_of_their_common_tokens() -> None:
    slots = Slots.empty(1)
    for index in range(2):
        written, mask = allocate(slots, [0])
        assert written == [index]
        assert mask.tolist() == [[[True] * (index + 1)]]
    keep(slots, [0, 0, 0])
    written, mask = allocate(slots, [0, 0, 0])
    assert written == [2, 3, 4]
    assert mask[0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]]
    # The second row is continued twice; the others end and free their slots.
    keep(slots, [1, 1])
    written, mask = allocate(slots, [0, 0])
    assert written == [2, 4]
    assert mask[0].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]]
