"""The paper's Table 3: sizes of its rows, and results beside the printed ones."""

from dataclasses import replace

import pytest

from nmt.base.errors import UserError
from nmt.cli import table3
from nmt.cli.compose import compose_config
from nmt.config import TokenizerConfig, table3_rows, with_row
from nmt.evaluation.table3 import count_row

PAPER, LAPTOP = (compose_config([f"experiment={scale}_scale"]) for scale in ("paper", "laptop"))


def millions(name: str, vocabulary_size: int = 41_000) -> float:
    tokenizer = TokenizerConfig(vocabulary_size=vocabulary_size)
    return count_row(replace(PAPER, tokenizer=tokenizer), name) / 1e6


def test_one_vocabulary_gives_all_printed_parameters_except_those_of_big() -> None:
    assert PAPER.tokenizer.vocabulary_size == 41_000
    printed = {name: float(row["parameters"]) for name, row in table3_rows().items()}
    assert len(printed) == 20
    assert [name for name in printed if abs(millions(name) - printed[name]) > 1] == ["big"]
    assert millions("big", 36_000) == pytest.approx(printed["big"], abs=0.5)
    # No vocabulary fits both: the two rows differ in d_ff only, 45 million in print.
    assert printed["big"] - printed["C-width-1024"] == 45
    for size in (36_000, 41_000):
        assert millions("big", size) - millions("C-width-1024", size) == pytest.approx(50.36, 0.001)


def test_rows_keep_their_ratio_to_base_at_both_scales() -> None:
    for name in table3_rows():
        paper, laptop = with_row(PAPER, name), with_row(LAPTOP, name)
        one, other = paper.model, laptop.model
        assert (one.width, one.feed_forward_width) == (
            4 * other.width,
            4 * other.feed_forward_width,
        )
        assert (one.num_encoder_layers, one.num_heads) == (
            2 * other.num_encoder_layers,
            other.num_heads,
        )
        assert one.head_key_width == 4 * other.head_key_width
        assert one.head_value_width == 4 * other.head_value_width
        assert (one.dropout, one.positions) == (other.dropout, other.positions)
        assert paper.training.label_smoothing == laptop.training.label_smoothing
        assert paper.training.max_updates * LAPTOP.training.max_updates == (
            laptop.training.max_updates * 100_000
        )
        peak = (one.width * paper.schedule.warmup_updates) ** -0.5  # equation 3
        assert paper.schedule.peak_learning_rate == pytest.approx(peak, rel=0.01)


def test_a_row_changes_what_the_paper_changes() -> None:
    big = with_row(PAPER, "big")
    assert (big.model.num_heads, big.model.dropout) == (16, 0.3)
    assert big.training.max_updates == 300_000
    assert with_row(PAPER, "E-learned").model.positions == "learned"
    assert with_row(PAPER, "D-smoothing-0.0").training.label_smoothing == 0
    assert with_row(PAPER, "A-heads-1").model.head_value_width == 512
    assert with_row(PAPER, "base").model == replace(PAPER.model, key_width=64, value_width=64)


def test_a_row_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(UserError, match=r"run.row=F is not a row; the rows are base, A-heads-1"):
        compose_config(["run.row=F"])
    with pytest.raises(UserError, match=r"run.row=C-layers-2 needs layers=4/3.*layers=4"):
        compose_config(["run.row=C-layers-2", "model.num_encoder_layers=4"])


def test_sizes_of_all_rows_are_printed_beside_the_papers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["table3", "experiment=paper_scale"])
    table3.main()
    *rows, note = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [row[0] for row in rows[3:]] == list(table3_rows())
    assert " ".join(rows[-1]) == "big 6 1024 4096 16 64 64 218.34 3.35 213 3.28"
    assert " ".join(note) == "big: 213.22 with a vocabulary of 36,000"
    monkeypatch.setattr("sys.argv", ["table3", "experiment=paper_scale", "model.width=256"])
    table3.main()
    assert capsys.readouterr().err.splitlines()[-1].startswith("big ")
