import torch

from nmt.model.decoder_state import DecoderState


def start(window: int = 0) -> DecoderState:
    return DecoderState.start([], torch.zeros(1, 1, 1, 1), window)


def allocated(state: DecoderState) -> tuple[list[int], list[list[int]]]:
    """Return the slots that the rows write to, and those to which each row attends."""
    state.allocate()
    state.position += 1
    assert set(state.mask.flatten().tolist()) <= {0.0, -torch.inf}
    return state.written.tolist(), [
        row.nonzero().flatten().tolist() for row in state.mask[0, 0] == 0
    ]


def test_rows_that_branch_share_the_slots_of_their_common_tokens() -> None:
    state = start()
    assert allocated(state) == ([0], [[0]])
    assert allocated(state) == ([1], [[0, 1]])
    state.reorder(torch.tensor([0, 0, 0]))
    assert allocated(state) == ([2, 3, 4], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    # The second row is continued twice; the others end.
    state.reorder(torch.tensor([1, 1]))
    assert allocated(state) == ([5, 6], [[0, 1, 3, 5], [0, 1, 3, 6]])


def test_slots_that_no_row_uses_are_found_again() -> None:
    state = start()
    state.reorder(torch.tensor([0, 0]))
    for _ in range(40):
        written, used = allocated(state)
        assert used[0] == sorted({*used[0], written[0]})
        state.reorder(torch.tensor([1, 1]))
    assert len(used[0]) == 40
    assert state.mask.size(-1) <= state.used.size(1) == 64
    # One slot for each token, and two for each decoding step since the last search.
    assert max(written) < 40 + 2 * 4


def test_slots_of_a_sentence_do_not_depend_on_its_batch() -> None:
    alone, beside = start(), DecoderState.start([], torch.zeros(2, 1, 1, 1))
    first_steps = [([0, 0, 0], [0, 0, 0, 1, 1, 1]), ([1, 1], [1, 1, 3, 3, 3]), ([0], [0, 2, 2, 2])]
    for rows, rows_beside in [*first_steps, *[([0], [0, 1, 2, 3])] * 6]:
        alone.allocate()
        beside.allocate()
        assert beside.written[: len(alone.written)].tolist() == alone.written.tolist()
        alone.reorder(torch.tensor(rows))
        beside.reorder(torch.tensor(rows_beside))


def test_restricted_rows_free_the_slots_that_left_their_window() -> None:
    state = start(window=2)
    assert allocated(state) == ([0], [[0]])
    assert allocated(state) == ([1], [[0, 1]])
    state.reorder(torch.tensor([0, 0]))
    assert allocated(state) == ([0, 2], [[0, 1], [1, 2]])
    state.reorder(torch.tensor([1, 0]))
    assert allocated(state) == ([3, 4], [[2, 3], [0, 4]])
    state.reorder(torch.tensor([1]))
    assert [allocated(state) for _ in range(3)] == [
        ([5], [[4, 5]]),
        ([7], [[5, 7]]),
        ([0], [[0, 7]]),
    ]
