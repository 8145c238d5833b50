import tempfile
from pathlib import Path

import pytest

from data_prep.build_shards import build_shards
from data_prep.cleaned_text import CleanedText
from data_prep.progress import Reporter
from data_prep.train_tokenizer import train_tokenizer
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import PrepareConfig, TokenizerConfig
from nmt.data.corpus import ParallelCorpus
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


def build(
    text: CleanedText, parts: list[int], model: Path, num_processes: int
) -> tuple[ParallelCorpus, list]:
    """Return the corpus and the token counts of both languages."""
    folder = Path(tempfile.mkdtemp(dir=model.parent))
    quiet = Reporter(quiet=True)
    work = PrepareConfig(num_processes=num_processes)
    counts = build_shards(text, parts, (model, model), folder, quiet, work, folder)
    return ParallelCorpus(folder, "train"), counts


@pytest.mark.parametrize("num_processes", [1, 2])
def test_shards_contain_the_text_in_order(
    text: CleanedText, model: Path, num_processes: int
) -> None:
    corpus, counts = build(text, PARTS, model, num_processes)
    tokenizer = Tokenizer(model)
    assert len(corpus) == sum(PARTS)
    decoded = [tokenizer.decode(corpus.pair(i)) for i in range(len(corpus))]
    assert decoded[30] == ["en sentence 1 0 so", "de sentence 1 0 so"]
    assert decoded[66] == ["en sentence 2 6 so", "de sentence 2 6 so"]
    for side, lengths in zip(counts, (corpus.source_lengths, corpus.target_lengths), strict=True):
        assert side.num_tokens == int(lengths.sum()) - len(corpus)  # EOS is counted in lengths
        assert sum(side.lengths.values()) == len(corpus)
        assert side.num_unknown == 0


def test_an_error_in_a_process_is_reported_by_file_and_line(text: CleanedText, model: Path) -> None:
    text.part_path(1, "de").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=r"train-00001\.de: line 1, byte 1: 0xff"):
        build(text, PARTS, model, 2)
