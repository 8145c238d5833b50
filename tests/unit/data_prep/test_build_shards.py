from pathlib import Path

import pytest

from data_prep.build_shards import build_shards
from data_prep.cleaned_text import CleanedText
from data_prep.progress import Reporter
from data_prep.train_tokenizer import train_tokenizer
from nmt.config import TokenizerConfig
from nmt.data.corpus import ParallelCorpus
from nmt.errors import UserError
from nmt.files import write_lines
from nmt.tokenizer import Tokenizer

PARTS = [30, 30, 7]


@pytest.fixture
def text(tmp_path: Path) -> CleanedText:
    text = CleanedText(tmp_path, ("en", "de"))
    for part, count in enumerate(PARTS):
        for language in ("en", "de"):
            lines = [f"{language} sentence {part} {i} so" for i in range(count)]
            write_lines(text.part_path(part, language), lines)
    return text


@pytest.fixture
def model(text: CleanedText, tmp_path: Path) -> Path:
    config, path = TokenizerConfig(vocabulary_size=295), tmp_path / "tokenizer.model"
    train_tokenizer([text.part_path(0, "en")], 30, config, path, Reporter(quiet=True))
    return path


@pytest.mark.parametrize("num_processes", [1, 2])
def test_shards_hold_the_text_in_order(
    text: CleanedText, model: Path, tmp_path: Path, num_processes: int
) -> None:
    quiet, folder = Reporter(quiet=True), tmp_path / "corpus"
    folder.mkdir()
    figures = build_shards(text, PARTS, (model, model), folder, quiet, num_processes)
    names = [f"train-0000{part}.arrow" for part in range(3)]
    assert sorted(path.name for path in folder.iterdir()) == names
    corpus, tokenizer = ParallelCorpus.open(folder, "train"), Tokenizer(model)
    assert len(corpus) == sum(PARTS)
    decoded = [tokenizer.decode(corpus.pair(i)) for i in range(len(corpus))]
    assert decoded[30] == ["en sentence 1 0 so", "de sentence 1 0 so"]
    assert decoded[66] == ["en sentence 2 6 so", "de sentence 2 6 so"]
    for side, lengths in zip(figures, (corpus.source_lengths, corpus.target_lengths), strict=True):
        assert side.num_tokens == int(lengths.sum()) - len(corpus)  # EOS is counted in lengths
        assert sum(side.lengths.values()) == len(corpus)
        assert side.num_unknown == 0


def test_left_out_merges_are_the_same_however_many_processes_encode(
    text: CleanedText, model: Path, tmp_path: Path
) -> None:
    tokenizer, built = Tokenizer(model), []
    for num_processes, dropout in ((1, 0.5), (2, 0.5), (1, 0.4)):
        folder = tmp_path / f"{num_processes}-{dropout}"
        folder.mkdir()
        figures = build_shards(
            text, PARTS, (model, model), folder, Reporter(quiet=True), num_processes, dropout
        )
        corpus = ParallelCorpus.open(folder, "train")
        pairs = [corpus.pair(i) for i in range(len(corpus))]
        assert [side.num_tokens for side in figures] == [
            sum(len(pair[side]) for pair in pairs) for side in range(2)
        ]
        built.append([[list(ids) for ids in pair] for pair in pairs])
    assert built[0] == built[1]
    assert built[0] != built[2]
    assert tokenizer.decode(built[0][30]) == ["en sentence 1 0 so", "de sentence 1 0 so"]


def test_each_part_and_each_side_has_chance_of_its_own(model: Path, tmp_path: Path) -> None:
    text = CleanedText(tmp_path, ("en", "de"))
    for part in range(2):
        for language in ("en", "de"):
            write_lines(text.part_path(part, language), ["a sentence of many merges"] * 5)
    folder = tmp_path / "corpus"
    folder.mkdir()
    build_shards(text, [5, 5], (model, model), folder, Reporter(quiet=True), 1, dropout=0.5)
    corpus = ParallelCorpus.open(folder, "train")
    splits = {
        tuple(tuple(corpus.pair(index)[side]) for index in range(first, first + 5))
        for first in (0, 5)
        for side in range(2)
    }
    assert len(splits) == 4


def test_a_failing_part_is_one_clear_error(text: CleanedText, model: Path, tmp_path: Path) -> None:
    text.part_path(1, "de").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=r"train-00001\.de: line 1, byte 1: 0xff"):
        build_shards(text, PARTS, (model, model), tmp_path, Reporter(quiet=True), 2)
