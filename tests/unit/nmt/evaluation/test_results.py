from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.errors import UserError
from nmt.evaluation.results import find_result, judge, lines_about, read_results, require_band
from nmt.evaluation.seeds import Spread

TABLE = Path(__file__).parents[4] / "conf" / "results.yaml"

ROW: dict[str, Any] = {
    "about": "a toy",
    "experiment": "toy",
    "overrides": [],
    "seeds": [1, 2],
    "test_set": "test",
    "metric": "bleu",
    "expected": {"mean": 25.0, "lowest": 24.0, "highest": 26.5},
    "data": {"origin": "made up", "files": {"train.en": "a" * 64}},
    "anchors": [{"score": 27.3, "form": "paper BLEU", "citation": "Vaswani et al. 2017"}],
    "measured": [
        {
            "date": "2026-11-21",
            "commit": "abc",
            "hardware": "2 cores",
            "minutes": 9.5,
            "figures": {1: 24.0, 2: 26.0},
        }
    ],
    "not_measured": "",
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "results.yaml"
    row = {key: value for key, value in {**ROW, **changes}.items() if value != "left out"}
    path.write_text(yaml.safe_dump({"toy": row}), encoding="utf-8")
    return path


def test_a_row_is_read(tmp_path: Path) -> None:
    result = find_result(written(tmp_path), "toy")
    assert result.recipe.seeds == [1, 2]
    assert result.data.files == {"train.en": "a" * 64}
    assert result.measured[0].figures == {1: 24.0, 2: 26.0}
    assert lines_about(result) == [
        "published: 27.3, paper BLEU (Vaswani et al. 2017)",
        "measured before: 25.00 ± 1.41 at abc, 2026-11-21, 2 cores",
    ]


@pytest.mark.parametrize(
    ("values", "is_inside", "words"),
    [
        ((24.0, 24.0), True, "reproduced: mean BLEU 24.00 of 2 seeds lies inside 24.00 to 26.50"),
        ((27.0, 26.0), True, "reproduced: mean BLEU 26.50 of 2 seeds lies inside 24.00 to 26.50"),
        (
            (23.5,),
            False,
            "not reproduced: mean BLEU 23.50 of 1 seed lies 0.50 below the lowest accepted, 24.00",
        ),
        (
            (26.5, 27.0),
            False,
            "not reproduced: mean BLEU 26.75 of 2 seeds lies 0.25 above the highest accepted,"
            " 26.50",
        ),
    ],
)
def test_the_mean_is_judged(
    tmp_path: Path, values: tuple[float, ...], is_inside: bool, words: str
) -> None:
    verdict = judge(find_result(written(tmp_path), "toy"), Spread(values))
    assert (verdict.is_inside, verdict.words) == (is_inside, words)


def test_without_a_band_nothing_is_judged(tmp_path: Path) -> None:
    result = find_result(written(tmp_path, expected=None), "toy")
    for asked in (require_band, lambda row: judge(row, Spread((1.0,)))):
        call: Callable[[Any], Any] = asked
        with pytest.raises(UserError, match="toy has no band stated yet"):
            call(result)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seeds": [1, 1]}, r"seeds: \[1, 1\] are not different whole numbers"),
        ({"seeds": []}, r"seeds: \[\] are not different whole numbers"),
        ({"seeds": ["x"]}, "toy: Value 'x'"),
        ({"metric": "bluu"}, "metric: bluu is none of bleu"),
        ({"expected": {"mean": 2, "lowest": 3, "highest": 4}}, "expected: 3.0, 2.0, 4.0 do not"),
        ({"expected": {"mean": 2, "lowest": 1}}, "toy.expected: highest missing"),
        ({"expected": "left out"}, "toy: expected is missing"),
        ({"test_set": "left out"}, "toy: test_set missing"),
        ({"tset": "x"}, "tset"),
        ({"data": {"origin": "o", "files": {"a.en": "12"}}}, "a.en has no SHA-256"),
        ({"measured": []}, "say in not_measured why"),
        ({"not_measured": "never"}, "and not both"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        read_results(written(tmp_path, **changes))


def test_a_row_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(UserError, match="result=tiy is none of toy"):
        find_result(path, "tiy")
    with pytest.raises(UserError, match="result= is missing: name one of toy"):
        find_result(path, "")


def test_the_papers_figures_are_rows() -> None:
    results = read_results(TABLE)
    anchors = {
        name: {anchor.score for anchor in result.anchors} for name, result in results.items()
    }
    assert anchors["wmt14_en_de_base"] == {27.3}
    assert anchors["wmt14_en_de_big"] == {28.4, 28.6}
    assert 38.1 in anchors["wmt14_en_fr_base"]
    assert 41.8 in anchors["wmt14_en_fr_big"]
    assert {"multi30k_en_de", "tatoeba_en_de"} < results.keys()
