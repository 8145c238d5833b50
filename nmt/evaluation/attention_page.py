"""Attention weights on one or more sentences, as a page or as a part of the report of a run.

A script in the page draws the weights that the reader chooses. The page loads no other file.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from nmt.pages.html_page import render
from nmt.translation.attention import SentenceAttention

_TEMPLATE = Path(__file__).with_name("templates") / "attend.html.jinja"
_SCRIPT = Path(__file__).with_name("templates") / "attend.js"
_BEGIN = "<s>"

ShownSentence = tuple[str, str, SentenceAttention]
"""Source, translation and attention."""


def summarise_head(weights: Tensor, is_self_attention: bool) -> dict[str, float | None]:
    """Compute the mean entropy of the rows, in bits, and their mean distance, in pieces.

    The distance of a row is the mean of |column - row| by its weights. Cross-attention has no
    distance, because positions in source and translation are not comparable.

    Args:
        weights: the attention weights of one head, (T, S); each row sums to one.
        is_self_attention: whether rows and columns are positions in the same text.
    """
    entropy = torch.special.entr(weights).sum(dim=1).mean() / math.log(2)
    rows, columns = (torch.arange(size) for size in weights.shape)
    distances = (columns[None, :] - rows[:, None]).abs()
    distance = float((weights * distances).sum(dim=1).mean()) if is_self_attention else None
    return {"entropy": float(entropy), "distance": distance}


def attention_page(direction: str, sentences: Sequence[ShownSentence]) -> str:
    """Render a page of attention maps with `direction` in its title."""
    return render(_TEMPLATE, {"direction": direction, "attention": attention_maps(sentences)})


def attention_maps(sentences: Sequence[ShownSentence]) -> dict[str, Markup]:
    """Return what the macro `attention_maps` of the templates needs: data and script."""
    data = [
        {"source": source, "translation": translation, "kinds": _plain(attention)}
        for source, translation, attention in sentences
    ]
    # "<" could end the script element.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return {"data": Markup(text), "script": Markup(_SCRIPT.read_text(encoding="utf-8"))}


def rows_and_columns(kind: str, attention: SentenceAttention) -> tuple[list[str], list[str]]:
    """Return the labels of the rows and of the columns of the maps in `attention.kinds[kind]`."""
    source, target = attention.source, attention.target
    if kind == "encoder":
        return source, source
    return target, source if kind == "cross" else [_BEGIN, *target[:-1]]


def _plain(attention: SentenceAttention) -> dict[str, Any]:
    kinds = {}
    for kind, layers in attention.kinds.items():
        rows, columns = rows_and_columns(kind, attention)
        heads = [[_plain_head(head, kind != "cross") for head in layer] for layer in layers]
        kinds[kind] = {"rows": rows, "columns": columns, "layers": heads}
    return kinds


def _plain_head(weights: Tensor, is_self_attention: bool) -> dict[str, Any]:
    summary = summarise_head(weights, is_self_attention)
    rounded = {key: None if one is None else round(one, 2) for key, one in summary.items()}
    return {"weights": [[round(one, 3) for one in row] for row in weights.tolist()], **rounded}
