import torch

from nmt.model.comparators.row_decoder import RowState


def test_rows_branch_and_sentences_without_rows_are_dropped() -> None:
    rows = torch.tensor([[10.0], [20.0], [30.0]])
    state = RowState.start([rows], [torch.tensor([1, 2, 3])])
    assert state.reorder(torch.tensor([0, 0, 2])) is state
    assert state.rows[0].tolist() == [[10.0], [10.0], [30.0]]
    assert state.shared[0].tolist() == [1, 3]
    assert state.sentences.tolist() == [0, 0, 1]
    # The grid has a cell without a row, for the second sentence.
    assert state.grid.spread(state.rows[0]).tolist() == [[[10.0], [10.0]], [[30.0], [0.0]]]
    state.reorder(torch.tensor([2]))
    assert (state.rows[0].tolist(), state.shared[0].tolist()) == ([[30.0]], [3])
