"""Folders of aligned text whose files are named in the ways of other programs."""

from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from tests.unit.data_prep.conftest import Toy, write_pairs


@pytest.fixture
def layout(toy: Toy, tmp_path: Path, opened, capsys: pytest.CaptureFixture[str]):
    """Open a folder of files with one or more lines each; return it and what is printed."""

    def open_folder(files: dict[str, list[str]], direction: str = "en-de"):
        for name, lines in files.items():
            write_lines(tmp_path / "text" / name, lines)
        source = opened(toy.config, path=str(tmp_path / "text"), direction=direction)
        return source, capsys.readouterr().out.replace(str(tmp_path), "")

    return open_folder


def both(*bases: str) -> dict[str, list[str]]:
    files = {}
    for base in bases:
        files |= {f"{base}.en": [f"{base} e{n}" for n in range(9)]}
        files |= {f"{base}.de": [f"{base} d{n}" for n in range(9)]}
    return files


@pytest.mark.parametrize(
    ("bases", "valid", "tests"),
    [
        (["train", "dev", "test"], "dev", ["test"]),
        (["train", "val", "dev"], "val", ["dev"]),
        (["train", "eval", "test"], "eval", ["test"]),
        (["train", "dev", "eval"], "dev", ["eval"]),
        (["train", "newsdev2016", "newstest2016"], "newsdev2016", ["newstest2016"]),
        (["train.tags.en-de", "dev2010", "tst2010"], "dev2010", ["tst2010"]),
        (["Europarl.de-en", "validation", "devtest"], "validation", ["devtest"]),
    ],
)
def test_the_validation_set_has_any_of_its_names(layout, bases, valid, tests) -> None:
    source, said = layout(both(*bases))
    assert source.splits() == ["train", "valid", *tests]
    assert next(source.pairs("valid")) == (f"{valid} e0", f"{valid} d0")
    assert next(source.pairs("train")) == (f"{bases[0]} e0", f"{bases[0]} d0")
    assert f"train = {bases[0]}, valid = {valid}, {tests[0]} = {tests[0]}" in said


def test_plain_names_are_not_explained(layout) -> None:
    _, said = layout(both("train", "valid", "test") | {"train.fr": ["un"], "README.md": ["a"]})
    assert said == ""


@pytest.mark.parametrize(
    "files",
    [
        {"source": ["e"] * 50, "target": ["d"] * 50, "metadata.json": ["{}"]},
        {"src-train.txt": ["e"] * 50, "tgt-train.txt": ["d"] * 50},
        {"train.src": ["e"] * 50, "train.trg": ["d"] * 50},
        {"train.eng": ["e"] * 50, "train.deu": ["d"] * 50},
        {"English.txt": ["e"] * 50, "German.txt": ["d"] * 50},
        {"train.en_US": ["e"] * 50, "train.de-AT": ["d"] * 50},
    ],
)
def test_layouts_of_other_programs(layout, files: dict[str, list[str]]) -> None:
    source, _ = layout({name: [f"{line}{n}" for n, line in enumerate(lines)]
                        for name, lines in files.items()})  # fmt: skip
    assert set(source.pairs("train")) <= {(f"e{n}", f"d{n}") for n in range(50)}
    assert source.num_pairs("train") > 40


def test_flores_is_read_from_the_folder_of_a_split(layout) -> None:
    lines = [str(n) for n in range(60)]
    source, said = layout({"eng_Latn.dev": lines, "deu_Latn.dev": lines, "fra_Latn.dev": lines})
    assert source.num_pairs("train") > 40
    assert "not used" not in said


def test_two_corpora_are_both_training_text(layout) -> None:
    source, said = layout(both("TED.de-en", "Europarl.de-en", "dev"))
    pairs = list(source.pairs("train"))
    assert len(pairs) == 18
    assert pairs[0] == ("Europarl.de-en e0", "Europarl.de-en d0")
    assert "train = Europarl.de-en + TED.de-en, valid = dev" in said


def test_lines_with_tags_of_the_iwslt_are_left_out(layout) -> None:
    tags, text = ["<url>a</url>", "<title>T</title>"], [f"{n}" for n in range(9)]
    files = {f"train.tags.en-de.{code}": tags + text for code in ("en", "de")}
    source, _ = layout(files | both("valid"))
    assert list(source.pairs("train")) == [(line, line) for line in text]


def test_what_is_not_used_is_said(layout, tmp_path: Path) -> None:
    (tmp_path / "text" / "devtest").mkdir(parents=True)
    files = both("train", "valid") | {"dev.en": ["a"], "more.zip": ["x"], "notes.md": ["y"]}
    _, said = layout(files)
    assert said == "/text: train = train, valid = valid; not used: dev.en, devtest, more.zip\n"


def test_archives_and_folders_without_text_are_explained(layout, toy: Toy, opened, tmp_path: Path):
    with pytest.raises(
        UserError, match=r"has no text for .*train\.en and train\.de.*a\.fr, b\.zip"
    ):
        layout({"a.fr": ["un"], "b.zip": ["x"]})
    for name in ("b.zip", "c.tgz", "d.tar.gz"):
        write_lines(tmp_path / "text" / name, ["x"])
        with pytest.raises(UserError, match=r"is an archive; unpack it"):
            opened(toy.config, path=str(tmp_path / "text" / name))


def test_two_files_of_one_side_are_refused(layout) -> None:
    files = both("train") | {"train.eng": ["a"]}
    with pytest.raises(UserError, match=r"train\.en and .*train\.eng both exist"):
        layout(files)


def test_of_two_varieties_the_direction_chooses(layout) -> None:
    files = {"train.pt-BR": ["b"] * 9, "train.pt-PT": ["p"] * 9, "train.en": ["e"] * 9}
    source, _ = layout(files | {f"valid.{c}": ["x"] for c in ("en", "pt")}, "en-pt_PT")
    assert next(source.pairs("train")) == ("e", "p")
    with pytest.raises(UserError, match=r"train\.pt-BR and .*train\.pt-PT both exist"):
        layout({}, "en-pt")


def test_a_beginning_of_two_files_may_have_names_of_languages(toy: Toy, opened) -> None:
    write_pairs(toy.raw, "more", ["a"], ["b"])
    (toy.raw / "train.en").rename(toy.raw / "train.eng")
    config = replace(toy.config, path=str(toy.raw / "train"))
    assert opened(config).num_pairs("train") > 150
