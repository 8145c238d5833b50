import numpy as np
import torch

from nmt.data.batch import collate, pad_ids
from tests.support import SpecialIds

SOURCE, TARGET = SpecialIds(0, 1, 2), SpecialIds(3, 4, 5)


def test_collate_adds_special_ids_and_padding() -> None:
    batch = collate([([7, 8], [9]), ([7], [9, 10, 11])], SOURCE, TARGET)
    assert batch.source.tolist() == [[7, 8, 2], [7, 2, 0]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_input.tolist() == [[4, 9, 3, 3], [4, 9, 10, 11]]
    assert batch.target_output.tolist() == [[9, 5, 3, 3], [9, 10, 11, 5]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.num_target_tokens == 6
    assert batch.target_indices.tolist() == [0, 1, 4, 5, 6, 7]


def test_a_token_equal_to_the_padding_id_is_not_masked() -> None:
    _, mask = pad_ids([[0, 0], [5]], pad_id=0)
    assert mask.tolist() == [[True, True], [True, False]]


def test_arrays_and_lists_are_padded_alike() -> None:
    arrays = pad_ids([np.array([1, 2], dtype=np.int32), np.array([], dtype=np.int32)], 9, after=3)
    lists = pad_ids([[1, 2], []], 9, after=3)
    assert all(torch.equal(a, b) for a, b in zip(arrays, lists, strict=True))
    assert lists[0].tolist() == [[1, 2, 3], [3, 9, 9]]
    assert lists[0].dtype == torch.int64
