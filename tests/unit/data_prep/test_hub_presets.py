"""The presets of data sets of the hub, with local parquet files of the same columns."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmt.cli.compose import CONFIG_FOLDER, compose_config
from nmt.config import CorpusSource
from tests.unit.data_prep.conftest import WORDS, sentences

NAMES = {path.stem for path in (CONFIG_FOLDER / "corpus").glob("*.yaml")}
PRESETS = [
    *("multi30k_en_de", "opus100_en_de", "opus100_en_fr"),
    *("wmt14_en_de", "wmt14_en_fr", "wmt19_en_de"),
]


def test_every_preset_of_the_hub_is_tried() -> None:
    sources = {
        name: compose_config([f"corpus={name}"]).corpus.source
        for name in NAMES - {"folder", "opus"}
    }
    assert sorted(name for name in sources if sources[name] is CorpusSource.hub) == PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_reads_files_with_its_columns_in_both_directions(
    preset: str, tmp_path: Path, opened
) -> None:
    corpus = compose_config([f"corpus={preset}"]).corpus
    languages = corpus.source_language, corpus.target_language
    folder = tmp_path / "parquet" / corpus.hub_subset
    folder.mkdir(parents=True)
    for name in corpus.hub_splits.values():
        sides = {language: sentences(language, 30, len(name)) for language in languages}
        rows = [dict(zip(sides, row, strict=True)) for row in zip(*sides.values(), strict=True)]
        table = pa.table({"translation": rows} if "translation" in corpus.hub_column else sides)
        pq.write_table(table, folder / f"{name}-00000-of-00001.parquet")
    for first, second in (languages, languages[::-1]):
        source = opened(corpus, path=str(tmp_path / "parquet"), direction=f"{first}-{second}")
        assert set(source.splits()) == corpus.hub_splits.keys()
        for split in source.splits():
            sources, targets = zip(*source.pairs(split), strict=True)
            assert len(sources) == len(targets) == 30
            assert set(" ".join(sources).split()) <= set(WORDS[first])
            assert set(" ".join(targets).split()) <= set(WORDS[second])
