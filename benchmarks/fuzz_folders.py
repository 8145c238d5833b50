"""Small models in each form that can be imported, and changes of their files."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from nmt.config import DecodingConfig, ModelConfig, StartEmbedding, Timescales
from nmt.exchange.huggingface import HuggingFaceExporter
from nmt.exchange.interface import imported_model
from nmt.exchange.marian import SETTINGS, MarianExporter
from nmt.model.build import build_model
from nmt.tokenizer import Tokenizer


def write_folders(root: Path) -> dict[str, Path]:
    """Write a model in each form that can be imported."""
    words = [f"{a}{b}" for a in "klmnprst" for b in "aeiou"]
    text = [" ".join(words[i : i + 5]) + "." for i in range(len(words) - 5)] * 3
    model_file = root / "tokenizer.model"
    with model_file.open("wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=out,
            vocab_size=50,
            model_type="unigram",
            pad_id=3,
            minloglevel=2,
        )
    tokenizer = Tokenizer(model_file)
    sizes = (tokenizer.vocabulary_size,) * 2
    found = {}
    for name, exporter, timescales in (
        ("huggingface", HuggingFaceExporter(), Timescales.paper),
        ("marian", MarianExporter(), Timescales.marian),
    ):
        config = ModelConfig(
            num_encoder_layers=1,
            num_decoder_layers=1,
            width=8,
            feed_forward_width=8,
            num_heads=2,
            max_length=64,
            start=StartEmbedding.zero,
            timescales=timescales,
        )
        torch.manual_seed(1)
        network = build_model(config, *sizes).eval().requires_grad_(False)
        tokenizers = [tokenizer, tokenizer]
        model = imported_model(["en", "de"], tokenizers, network, 64, DecodingConfig(max_length=10))
        found[name] = root / name
        found[name].mkdir()
        exporter.export(model, found[name])
    (found["marian"] / "model.bin").unlink()
    found["opus"] = _with_table(found["marian"], root / "opus", tokenizer)
    folder = found["torch"] = Path(shutil.copytree(found["huggingface"], root / "torch"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return found


def _with_table(folder: Path, copy: Path, tokenizer: Tokenizer) -> Path:
    """Copy a model of Marian; its vocabulary becomes a table of ids in YAML."""
    shutil.copytree(folder, copy)
    (copy / "vocab.spm").unlink()
    for side in ("source", "target"):
        shutil.copyfile(tokenizer.path, copy / f"{side}.spm")
    lines = [f"{json.dumps(piece)}: {i}\n" for i, piece in enumerate(tokenizer.all_pieces())]
    (copy / "opus.vocab.yml").write_text("".join(lines))
    decoder = yaml.safe_load((copy / "decoder.yml").read_text())
    decoder["vocabs"] = ["opus.vocab.yml"] * 2
    (copy / "decoder.yml").write_text(yaml.safe_dump(decoder))
    return copy


# Changes.

_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 30))
_TEXTS = [
    *("[" * 60_000, "{a: " * 60_000, '{"a":' * 60_000, _BOMB, "9" * 60_000, "- " * 60_000),
    *("NaN", "null", "-1", "[]", "{}", '""', "!!python/name:os.system", "\0" * 100, "? " * 9_999),
    *("\\" * 9_999, '"' * 9_999, "1e999", "0x" + "f" * 60_000, "%YAML 9.9\n---\n", "&a *a"),
]
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([10**6, 2**31, 2**63, 10**30, -(10**30), 1e308]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["</s>", "<unk>", "<pad>", "../x", "/etc/passwd", "x" * 60_000, "gelu"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=3),
)


def _keys(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in items:
        found.append((*prefix, key))
        if isinstance(inner, dict | list):
            found += _keys(inner, (*prefix, key))
    return found


def _change_value(draw: Callable[..., Any], content: Any) -> Any:
    """Replace, remove or add a value."""
    *path, key = draw(st.sampled_from(_keys(content)))
    node = content
    for step in path:
        node = node[step]
    kind = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if kind == "remove":
        del node[key]
    elif kind == "add" and isinstance(node, dict):
        node[draw(st.text(max_size=8))] = draw(_VALUES)
    else:
        node[key] = draw(_VALUES)
    return content


def _change_bytes(draw: Callable[..., Any], content: bytes) -> bytes:
    position = draw(st.integers(0, len(content)))
    kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "replace", "text"]))
    if kind == "text":
        return str(draw(st.sampled_from(_TEXTS))).encode()
    if kind == "cut":
        return content[:position]
    if kind == "insert":
        inserted = draw(st.one_of(st.binary(max_size=16), st.sampled_from(_TEXTS)))
        inserted = inserted.encode() if isinstance(inserted, str) else inserted
        return content[:position] + inserted + content[position:]
    length = draw(st.integers(1, 64))
    if kind == "repeat":
        part = content[position : position + length]
        return content[:position] + part * draw(st.integers(2, 1000)) + content[position:]
    new = draw(st.binary(min_size=1, max_size=length))
    rest = content[position + (len(new) if kind == "flip" else length) :]
    return content[:position] + new + rest


def _change_arrays(draw: Callable[..., Any], arrays: dict[str, Any]) -> None:
    name = draw(st.sampled_from(sorted(arrays)))
    kind = draw(st.sampled_from(["type", "shape", "value", "remove", "rename", "settings"]))
    if kind == "settings" and SETTINGS in arrays:
        text = bytes(arrays[SETTINGS]).rstrip(b"\0")
        if draw(st.booleans()):
            changed = yaml.safe_dump(_change_value(draw, yaml.safe_load(text))).encode()
        else:
            changed = _change_bytes(draw, text)
        arrays[SETTINGS] = np.frombuffer(changed + b"\0", np.int8)
    elif kind == "type":
        kinds = ["f2", "f8", "i4", "i8", "?", "c8", "S4"]
        arrays[name] = arrays[name].astype(draw(st.sampled_from(kinds)))
    elif kind == "shape":
        shapes = [(0,), (1,), (7, 3), (), (1, 1, 1), (5000, 8)]
        arrays[name] = np.zeros(draw(st.sampled_from(shapes)), np.float32)
    elif kind == "value":
        values = [np.nan, np.inf, 1e30, -1e30, 0.0]
        arrays[name] = np.full_like(arrays[name], draw(st.sampled_from(values)), np.float32)
    elif kind == "remove":
        del arrays[name]
    else:
        arrays[draw(st.text(min_size=1, max_size=9).filter(str.isalnum))] = arrays.pop(name)


@st.composite
def changed_folder(draw: Callable[..., Any], root: Path, folders: dict[str, Path]) -> str:
    """Write a changed copy of a folder to `root`; return what it is."""
    shutil.rmtree(root, ignore_errors=True)
    name = draw(st.sampled_from(sorted(folders)))
    shutil.copytree(folders[name], root)
    files = []
    for _ in range(draw(st.integers(1, 2))):
        file = root / draw(st.sampled_from(sorted(os.listdir(folders[name]))))
        files.append(file.name)
        is_deep = draw(st.booleans()) and len(set(files)) == len(files)
        if is_deep and file.suffix == ".json":
            content = _change_value(draw, json.loads(file.read_text()))
            file.write_text(json.dumps(content, default=str))
        elif is_deep and file.suffix == ".yml":
            content = _change_value(draw, yaml.safe_load(file.read_text()))
            file.write_text(yaml.safe_dump(content))
        elif is_deep and file.suffix == ".npz":
            with np.load(file) as found:
                arrays = dict(found)
            _change_arrays(draw, arrays)
            np.savez(file, **arrays)
        elif is_deep and file.suffix == ".safetensors":
            arrays = {key: value.numpy() for key, value in load_file(file).items()}
            _change_arrays(draw, arrays)
            kept = {key: torch.tensor(v) for key, v in arrays.items() if v.dtype.kind not in "S"}
            save_file(kept, file)
        else:
            file.write_bytes(_change_bytes(draw, file.read_bytes()))
    return f"{name}: {' '.join(files)}"
