from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.base.errors import UserError
from nmt.evaluation.spread import Spread
from nmt.runs.reproduce import find_result, read_results

TABLE = Path(__file__).parents[4] / "conf" / "results.yaml"

ROW: dict[str, Any] = {
    "about": "a toy",
    "experiment": "toy",
    "seeds": [1, 2],
    "test_set": "test",
    "metric": "bleu",
    "expected": {"mean": 25.0, "lowest": 24.0, "highest": 26.5},
    "data": {"origin": "made up", "files": {"train.en": "a" * 64}},
    "anchors": [{"score": 27.3, "form": "paper BLEU", "citation": "Vaswani et al. 2017"}],
    "measured": [
        {
            **{"date": "2026-11-21", "commit": "abc", "hardware": "2 cores", "minutes": 9.5},
            "figures": {1: 24.0, 2: 26.0},
        }
    ],
}


def write_table(folder: Path, **changes: Any) -> Path:
    path = folder / "results.yaml"
    path.write_text(yaml.safe_dump({"toy": {**ROW, **changes}}), encoding="utf-8")
    return path


def test_a_row_is_read(tmp_path: Path) -> None:
    result = find_result(write_table(tmp_path), "toy")
    assert result.seeds == [1, 2]
    assert result.data.files == {"train.en": "a" * 64}
    assert result.measured[0]["figures"] == {1: 24.0, 2: 26.0}
    assert result.anchors[0].score == 27.3


@pytest.mark.parametrize(
    ("values", "is_accepted", "message"),
    [
        ((24.0, 24.0), True, "reproduced: mean BLEU 24.00 of 2 seeds"),
        ((27.0, 26.0), True, "reproduced: mean BLEU 26.50 of 2 seeds"),
        ((23.5,), False, "not reproduced: mean BLEU 23.50 of 1 seed"),
        ((26.5, 27.0), False, "not reproduced: mean BLEU 26.75 of 2 seeds"),
    ],
)
def test_the_mean_is_compared_with_the_accepted_range(
    tmp_path: Path, values: tuple[float, ...], is_accepted: bool, message: str
) -> None:
    verdict = find_result(write_table(tmp_path), "toy").judge(Spread.of(values))
    assert verdict == (is_accepted, f"{message}; accepted: 24.0 to 26.5")
    result = find_result(write_table(tmp_path, expected=None), "toy")
    with pytest.raises(UserError, match="toy has no expected score yet"):
        result.judge(Spread.of(values))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [1, 1]}, r"toy: seeds: \[1, 1\] must be distinct"),
        ({"seeds": []}, r"toy: seeds: \[\] must be distinct"),
        ({"seeds": [2**32]}, r"toy: seeds: \[4294967296\] must be distinct"),
        ({"seeds": ["x"]}, "seeds.0=x: "),
        ({"metric": "bluu"}, "metric: bluu is not one of bleu"),
        ({"expected": {"mean": 2, "lowest": 3, "highest": 4}}, "lowest <= mean <= highest"),
        ({"tset": "x"}, "tset"),
    ],
)
def test_an_invalid_row_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_results(write_table(tmp_path, **changes))


def test_an_unknown_name_lists_the_rows(tmp_path: Path) -> None:
    path = write_table(tmp_path)
    with pytest.raises(UserError, match="result=tiy is unknown; choose one of toy"):
        find_result(path, "tiy")
    path.write_text("toy: 3\n", encoding="utf-8")
    with pytest.raises(UserError, match="toy must be a mapping of keys"):
        find_result(path, "toy")


def test_the_table_has_the_scores_of_the_paper() -> None:
    results = read_results(TABLE)
    scores = {name: {anchor.score for anchor in one.anchors} for name, one in results.items()}
    assert scores["wmt14_en_de_base"] == {27.3}
    assert scores["wmt14_en_de_big"] == {28.4, 28.6}
    assert 38.1 in scores["wmt14_en_fr_base"]
    assert 41.8 in scores["wmt14_en_fr_big"]
    for name in ("multi30k_en_de", "tatoeba_en_de"):
        assert results[name].measured
