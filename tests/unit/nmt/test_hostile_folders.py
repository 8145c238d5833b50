"""Model folders from untrusted sources: each is rejected with an error message of one line."""

import json
import os
import resource
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model
from tests.support import made_up_sentences, train_tokenizer

CONFIG, WEIGHTS, TOKENIZER = "config.yaml", "weights.safetensors", "tokenizer.model"
MEGABYTE = 2**20

# Code in a hostile file would create this file.
TRACE = "code_ran"

Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def saved(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_trained_model(trained_model, folder, {})
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(saved, tmp_path / "model"))


# Changes of the configuration.


def text(content: str) -> Change:
    return lambda folder: (folder / CONFIG).write_text(content)


def more(line: str, encoding: str = "utf-8") -> Change:
    def change(folder: Path) -> None:
        with (folder / CONFIG).open("a", encoding=encoding) as out:
            out.write(line)

    return change


def raw_value(key: str, value: str) -> Change:
    """Set a key to YAML text."""

    def change(folder: Path) -> None:
        lines = (folder / CONFIG).read_text().splitlines()
        [index] = [n for n, line in enumerate(lines) if line.strip().startswith(f"{key}:")]
        lines[index] = lines[index].partition(":")[0] + f": {value}"
        (folder / CONFIG).write_text("\n".join(lines) + "\n")

    return change


def values(**changes: object) -> Change:
    """Set keys, `group__key` in a group; `...` removes a key."""

    def change(folder: Path) -> None:
        stored = yaml.safe_load((folder / CONFIG).read_text())
        for key, value in changes.items():
            group, in_group, leaf = key.partition("__")
            mapping, name = (stored[group], leaf) if in_group else (stored, key)
            mapping[name] = value
            if value is ...:
                del mapping[name]
        (folder / CONFIG).write_text(yaml.safe_dump(stored))

    return change


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 30))
RUN = f"!!python/object/apply:os.system ['touch {TRACE}']"

CONFIGS: dict[str, tuple[Change, str]] = {
    "a list": (text("- 1\n- 2\n"), "has no keys"),
    "not YAML": (more("model: [\n"), "is not valid YAML"),
    "a version of YAML that cannot be": (text(f"%YAML {'9' * 5000}.1\n---\n"), "is not valid YAML"),
    "a key twice": (more("source_language: fr\n"), "duplicate key source_language"),
    "aliases that grow to 9 ** 29 values": (text(BOMB), "line 1 has an anchor"),
    "20,000 lists in each other": (text("a: " + "[" * 20_000), "nested too deeply"),
    "too large": (text("# more\n" * 20_000), "is larger than 64 KiB"),
    "a tag that runs a command": (raw_value("target_language", RUN), "has a tag"),
    "an interpolation": (raw_value("target_language", "${oc.env:HOME}"), "is not a language code"),
    "an unknown key": (values(model__widht=16), "widht"),
    "a class to instantiate": (values(_target_="os.system"), "_target_"),
    "a key of line ends and escapes": (
        values(**{"a\n\x1b[2J\u202eb\n": 1}),
        r"a \\x1b\[2J\\u202eb",
    ),
    "a key is missing": (values(target_language=...), "lacks the key target_language"),
    "a group is null": (values(decoding=None), "decoding"),
    "a word for a number": (values(model__width="wide"), "wide"),
    "width huge": (values(model__width=10**9), "model.width=1000000000: "),
    "width of 6,000 digits": (
        raw_value("width", "0x1" + "0" * 5_000),
        r"line \d+ has a value of more than 2,000 characters",
    ),
    "values huge": (values(model__key_width=8, model__value_width=65_536), "less than half of"),
    "rotary positions huge": (
        values(
            model__positions="rotary",
            model__key_width=2**16,
            model__value_width=8,
            model__max_length=300,
        ),
        "is too large for a width of 65536",
    ),
    "learned positions are in no weights": (values(model__positions="learned"), "another model"),
    "a penalty that is no number": (raw_value("length_penalty", ".nan"), "length_penalty=nan"),
    "a language up the folders": (
        values(target_language="../../etc/passwd", joint_vocabulary=False),
        "'../../etc/passwd' is not a language code",
    ),
    "a language longer than names": (
        values(
            source_language="e" * 1_500, joint_vocabulary=False, model__tied_embeddings="target"
        ),
        "no such file",
    ),
    "a source length beyond the positions": (values(max_source_length=10**6), "between 2 and"),
    "format true": (values(format_version=True), "format_version=True, but this program reads 1"),
    "format 99": (values(format_version=99), "format_version=99, but this program reads 1"),
    "another width": (values(model__width=20), "has shape"),
}


# Changes of the weights.


def header(content: object, data: bytes = b"") -> Change:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    written = struct.pack("<Q", len(raw)) + raw + data
    return lambda folder: (folder / WEIGHTS).write_bytes(written)


def one_tensor(dtype: str, shape: list[int], num_bytes: int) -> Change:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, num_bytes]}
    return header({"a": entry}, bytes(min(num_bytes, 64)))


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)

    return rewrite


def first_value(value: float) -> Change:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["encoder.0.feed_forward.inner.bias"][3] = value

    return weights(change)


def every_dtype(dtype: torch.dtype) -> Change:
    return weights(lambda tensors: tensors.update({k: t.to(dtype) for k, t in tensors.items()}))


class RunsOnUnpickling:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {TRACE}",)


def pickled(in_zip: bool) -> Change:
    return lambda folder: torch.save(
        RunsOnUnpickling(), folder / WEIGHTS, _use_new_zipfile_serialization=in_zip
    )


def cut(name: str, keep: Callable[[int], int]) -> Change:
    def shorten(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: keep(len(whole))])

    return shorten


WEIGHT_FILES: dict[str, tuple[Change, str]] = {
    "cut in the middle": (cut(WEIGHTS, lambda size: size // 2), "is damaged"),
    "a header of 2 ** 60 bytes": (
        lambda folder: (folder / WEIGHTS).write_bytes(struct.pack("<Q", 2**60) + bytes(99)),
        "is damaged",
    ),
    "a header that is not JSON": (header(b"tensors: 3"), "is damaged"),
    "a header of 100,000 lists": (header(b"[" * 100_000), "is damaged"),
    "a header of no tensors": (header({}), "holds 0 numbers, less than half of what"),
    "a shape that overflows": (one_tensor("F32", [2**62, 2**62], 0), "is damaged"),
    "a shape of no values": (one_tensor("F32", [0, 2**63], 0), "must be F32 and not"),
    "float64": (every_dtype(torch.float64), "is F64 of shape"),
    "NaN": (first_value(float("nan")), "inner.bias holds NaN or infinity"),
    "one shape": (
        weights(lambda t: t.update({"output_weight": torch.zeros(400, 17)})),
        r"output_weight has shape \(400, 17\)",
    ),
    "one is missing": (weights(lambda t: t.pop("output_weight")), "another model: output_weight"),
    "a name of line ends and escapes": (
        weights(lambda t: t.update({"a\n\x1b[2Jb": torch.zeros(2)})),
        r"another model: a \\x1b\[2Jb",
    ),
    "a pickle": (pickled(in_zip=False), "is damaged"),
    "a checkpoint of torch": (pickled(in_zip=True), "is damaged"),
}


# Changes of the tokenizer.


def tokenizer(vocabulary_size: int, **options: int) -> Change:
    sentences = made_up_sentences(300)
    return lambda folder: train_tokenizer(folder / TOKENIZER, sentences, vocabulary_size, **options)


def misspelled(folder: Path) -> None:
    """Replace a piece by bytes that are not UTF-8, which sentencepiece accepts."""
    path = folder / TOKENIZER
    path.write_bytes(path.read_bytes().replace(b"ka", b"\xff\xfe"))


TOKENIZERS: dict[str, tuple[Change, str]] = {
    "random bytes": (
        lambda folder: (folder / TOKENIZER).write_bytes(bytes(n * n % 251 for n in range(5_000))),
        "is not a sentencepiece model",
    ),
    "pieces that are not UTF-8": (misspelled, "is not a sentencepiece model"),
    "fewer pieces": (tokenizer(120), "output_weight has shape"),
    "no padding": (tokenizer(120, pad_id=-1), "lacks the special piece pad"),
}


# Replacements of a file.


def replaced(name: str, put: Callable[[Path], object]) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.rename(folder.parent / f"outside_{name}")
        put(path)

    return change


REPLACEMENTS = {
    "nothing": (lambda path: None, "no such file; .* is incomplete"),
    "a folder": (Path.mkdir, "is not a file"),
    "a pipe": (os.mkfifo, "is not a file"),
    "a link to endless zeros": (lambda path: path.symlink_to("/dev/zero"), "leads out of"),
    "a link out": (lambda path: path.symlink_to(f"../outside_{path.name}"), "leads out of"),
    "a dangling link": (lambda path: path.symlink_to("nothing"), "no such file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "no such file"),
}

ALL = [
    *(pytest.param(CONFIG, *case, id=f"config: {name}") for name, case in CONFIGS.items()),
    *(pytest.param(WEIGHTS, *case, id=f"weights: {name}") for name, case in WEIGHT_FILES.items()),
    *(pytest.param(TOKENIZER, *case, id=f"tokenizer: {name}") for name, case in TOKENIZERS.items()),
    *(
        pytest.param(part, replaced(part, put), expected, id=f"{part}: {name}")
        for part in (CONFIG, WEIGHTS, TOKENIZER)
        for name, (put, expected) in REPLACEMENTS.items()
    ),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("part", "change", "expected"), ALL)
def test_a_changed_folder_is_rejected_by_one_line(
    folder: Path, capfd: pytest.CaptureFixture[str], part: str, change: Change, expected: str
) -> None:
    change(folder)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=expected) as error:
        load_trained_model(folder)
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 1_200
    assert f"{folder}/" in message
    # If files do not match, the message may name another file.
    if not any(words in expected for words in ("has shape", "another model", "less than half")):
        assert part in message or "tokenizer." in message
    # Linux counts kilobytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200 * MEGABYTE / 1024
    assert not Path(TRACE).exists()
    assert capfd.readouterr() == ("", "")


def test_the_unchanged_folder_is_loaded(folder: Path) -> None:
    load_trained_model(folder)


def test_unpickling_the_hostile_object_runs_its_code(folder: Path) -> None:
    """Check that the test above would notice the code."""
    torch.save(RunsOnUnpickling(), folder / "hostile.pt")
    with pytest.raises(Exception, match="weights_only"):
        torch.load(folder / "hostile.pt", weights_only=True)
    assert not Path(TRACE).exists()
    function, arguments = RunsOnUnpickling().__reduce__()
    function(*arguments)
    assert Path(TRACE).exists()


def test_links_to_and_within_the_folder_are_followed(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "weights_2.safetensors")
    (folder / WEIGHTS).symlink_to("weights_2.safetensors")
    (folder.parent / "latest").symlink_to("model")
    load_trained_model(folder.parent / "latest")
