import torch

from nmt.model.decoder_state import DecoderState


def test_rows_that_branch_share_the_slots_of_their_common_tokens() -> None:
    state = DecoderState.start([], torch.ones(1, 1, 1, 1, dtype=torch.bool))

    def allocated() -> tuple[list[int], list[list[int]]]:
        """Indices that the rows write to, and the slots that each row attends to."""
        state.allocate()
        return state.written.tolist(), state.mask[0, 0].int().tolist()

    assert allocated() == ([0], [[1]])
    assert allocated() == ([1], [[1, 1]])
    state.reorder(torch.tensor([0, 0, 0]))
    assert allocated() == ([2, 3, 4], [[1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]])
    # The second row is continued twice; the others end and free their slots.
    state.reorder(torch.tensor([1, 1]))
    assert allocated() == ([2, 4], [[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]])


def test_restricted_rows_free_the_slots_that_left_their_window() -> None:
    state = DecoderState.start([], torch.ones(1, 1, 1, 1, dtype=torch.bool), window=2)

    def allocated() -> tuple[list[int], list[list[int]]]:
        state.allocate()
        state.position += 1
        return state.written.tolist(), state.mask[0, 0].int().tolist()

    assert allocated() == ([0], [[1]])
    assert allocated() == ([1], [[1, 1]])
    state.reorder(torch.tensor([0, 0]))
    assert allocated() == ([0, 2], [[1, 1, 0], [0, 1, 1]])
    state.reorder(torch.tensor([1, 0]))
    assert allocated() == ([1, 3], [[0, 1, 1, 0], [1, 0, 0, 1]])
    state.reorder(torch.tensor([1]))
    assert allocated() == ([0], [[1, 0, 0, 1]])
