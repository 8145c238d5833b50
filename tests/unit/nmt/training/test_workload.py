from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.model.memory import Shape
from nmt.training.workload import corpus_sizes, search_batches, surroundings
from tests.support import reversed_digits, tiny_config, with_batching, write_corpus


def test_search_has_the_batches_of_validation_the_longest_first(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)  # a translation has four tokens more, and 64 at most
    config = replace(config, decoding=replace(config.decoding, batch_size=2))
    found = search_batches(config, [3, 9, 40, 7, 8])
    # What is longer than batching.max_source_length is taken apart.
    assert found == [Shape(2, 32, 36), Shape(2, 8, 12), Shape(1, 3, 7)]
    few = replace(config, decoding=replace(config.decoding, batch_size=3, batch_tokens=32))
    shapes = [(batch.rows, batch.source) for batch in search_batches(few, [3, 9, 40, 7, 8])]
    assert shapes == [(1, 32), (3, 9), (1, 3)]
    limited = replace(config, decoding=replace(config.decoding, max_length=6))
    assert [batch.target for batch in search_batches(limited, [3, 3, 2])] == [6, 6]


def test_nothing_to_train_on_is_refused_with_both_limits(
    digit_corpus: Path, tmp_path: Path
) -> None:
    config = with_batching(tiny_config(tmp_path), max_source_length=2)
    both = r"none of the 300 .*max_source_length=2 .*max_target_length=32 tokens; raise them"
    with pytest.raises(UserError, match=both):
        corpus_sizes(config, PreparedCorpus(digit_corpus))


def test_nothing_to_validate_on_is_refused_by_its_path(
    tmp_path: Path, digit_tokenizer_path: Path
) -> None:
    splits = {"train": reversed_digits(20, 1), "valid": []}
    folder = write_corpus(tmp_path / "digits-1", digit_tokenizer_path, splits)
    with pytest.raises(UserError, match=r"text/valid\.en is empty"):
        corpus_sizes(tiny_config(tmp_path), PreparedCorpus(folder))


def test_a_launcher_knows_who_shares_gradients_and_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, device = tiny_config(tmp_path), torch.device("cpu")
    alone = surroundings(config, device)
    assert not alone.arithmetic.is_shared
    for name, value in {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    shared = surroundings(config, device)
    assert shared.arithmetic.is_shared
    ratio = (alone.room - alone.program) / (shared.room - shared.program)
    assert ratio == pytest.approx(4, rel=0.1)


def test_r_drop_has_two_passes(tmp_path: Path) -> None:
    device = torch.device("cpu")
    assert surroundings(tiny_config(tmp_path), device).arithmetic.num_passes == 1
    assert surroundings(tiny_config(tmp_path, r_drop=5.0), device).arithmetic.num_passes == 2


def test_a_cpu_searches_with_a_batch_a_worker(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    device = torch.device("cpu")
    assert surroundings(config, device).arithmetic.num_workers == torch.get_num_threads()
    three = replace(config, decoding=replace(config.decoding, num_workers=3))
    assert surroundings(three, device).arithmetic.num_workers == 3
