import numpy as np
import torch

from nmt.data.batch import SpecialIds, collate, pad_ids

SOURCE, TARGET = SpecialIds(0, 1, 2), SpecialIds(3, 4, 5)


def test_a_batch_frames_and_pads_both_sides() -> None:
    batch = collate([([7, 8], [9]), ([7], [9, 10, 11])], SOURCE, TARGET)
    assert batch.source.tolist() == [[7, 8, 2], [7, 2, 0]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_input.tolist() == [[4, 9, 3, 3], [4, 9, 10, 11]]
    assert batch.target_output.tolist() == [[9, 5, 3, 3], [9, 10, 11, 5]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.num_target_tokens == 6
    assert batch.target_places.tolist() == [0, 1, 4, 5, 6, 7]


def test_a_token_that_is_the_padding_id_is_still_real() -> None:
    _, mask = pad_ids([[0, 0], [5]], pad_id=0)
    assert mask.tolist() == [[True, True], [True, False]]


def test_arrays_are_taken_as_lists_are() -> None:
    arrays = pad_ids([np.array([1, 2], dtype=np.int32), np.array([], dtype=np.int32)], 9, after=3)
    lists = pad_ids([[1, 2], []], 9, after=3)
    assert all(torch.equal(a, b) for a, b in zip(arrays, lists, strict=True))
    assert lists[0].tolist() == [[1, 2, 3], [3, 9, 9]]
    assert lists[0].dtype == torch.int64


def test_an_empty_pair_is_bos_and_eos() -> None:
    batch = collate([([], [])], SOURCE, TARGET)
    assert batch.source.tolist() == [[2]]
    assert batch.target_input.tolist() == [[4]]
    assert batch.target_output.tolist() == [[5]]
    assert batch.num_target_tokens == 1


def test_no_sequences_make_an_empty_batch() -> None:
    ids, mask = pad_ids([], pad_id=0)
    assert ids.shape == mask.shape == (0, 0)


def test_moving_keeps_everything() -> None:
    batch = collate([([7, 8], [9])], SOURCE, TARGET)
    moved = batch.to(torch.device("cpu"))
    assert torch.equal(moved.target_mask, batch.target_mask)
    assert moved.num_target_tokens == 2
