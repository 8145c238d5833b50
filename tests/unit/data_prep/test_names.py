import pytest

from data_prep.names import fit, role, side_of, split_name

EN_DE = "en", "de"


@pytest.mark.parametrize(
    ("name", "base", "side"),
    [
        ("train.en", "train", 0),
        ("train.ger", "train", 1),
        ("train.deu", "train", 1),
        ("train.en_US", "train", 0),
        ("train.English", "train", 0),
        ("train.tags.en-de.de", "train.tags.en-de", 1),
        ("Europarl.de-en.en", "Europarl.de-en", 0),
        ("eng_Latn.devtest", "devtest", 0),
        ("src-train.txt", "train", 0),
        ("tgt-val.txt", "val", 1),
        ("train_german.txt", "train", 1),
        ("test_2016_flickr.en", "test_2016_flickr", 0),
        ("target", "train", 1),
        ("val.trg", "val", 1),
    ],
)
def test_the_name_of_a_file_is_a_split_and_a_side(name: str, base: str, side: int) -> None:
    found = split_name(name, EN_DE)
    assert found is not None
    assert found[:2] == (base, side)


@pytest.mark.parametrize(
    "name", ["train.fr", "de-en.fr", "train.de.1", "train.score", "README.md", "metadata.json"]
)
def test_the_name_of_another_file_is_no_side(name: str) -> None:
    assert split_name(name, EN_DE) is None


@pytest.mark.parametrize(
    ("name", "code", "rank"),
    [
        ("en", "en", 0),
        ("DE", "de", 0),
        ("eng-GB", "en", 0),
        ("cmn", "zh", 0),
        ("nb", "no", 0),
        ("nn", "nb", None),
        ("pt-BR", "pt", 0),
        ("pt", "pt_PT", 1),
        ("pt-BR", "pt_PT", None),
        ("zh-CN", "zh_Hans", 1),
        ("zh-TW", "zh_Hans", None),
        ("sr-Cyrl", "sr_Latn", None),
        ("digits", "digits", 0),
        ("words", "digits", None),
        ("Portuguese", "pt", 0),
    ],
)
def test_how_well_a_name_fits_a_language(name: str, code: str, rank: int | None) -> None:
    assert fit(name, code) == rank


def test_a_word_that_fits_both_languages_is_no_side() -> None:
    assert side_of("en", ("en_US", "en_GB")) is None
    assert side_of("pt-BR", ("pt", "pt_BR")) is None
    assert side_of("pt_BR", ("pt", "pt_BR")) == (1, 0)


@pytest.mark.parametrize(
    ("expected", "bases"),
    [
        ("train", ["train", "train.tags.de-en", "training", "corpus.train", "train.test"]),
        ("valid", ["valid", "validation", "val", "dev", "dev2010", "newsdev2016", "eval"]),
        ("test", ["test", "devtest", "dev-test", "newstest2014", "test_2016_flickr", "tst2010"]),
        (None, ["Europarl.de-en", "pretrain", "2016", "news.tr-en", "flickr"]),
    ],
)
def test_the_role_of_a_split(expected: str | None, bases: list[str]) -> None:
    assert {role(base) for base in bases} == {expected}
