"""All attention weights on one or more sentences: a page, and a part of the report of a run.

A script in the page draws the weights that the reader chooses. The page loads no other file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class HeadSummary:
    """Entropy of a head's weights in bits, and weighted distance from row to column in pieces.

    Both are means over the rows. Cross-attention has no distance, because positions in source and
    translation are not comparable.
    """

    entropy: float
    distance: float | None


def summarise_head(weights: Tensor, is_self_attention: bool) -> HeadSummary:
    """Summarise the (T, S) weights of a head; each row sums to one."""
    entropy = -torch.special.xlogy(weights, weights).sum(dim=1).mean() / torch.log(torch.tensor(2))
    if not is_self_attention:
        return HeadSummary(float(entropy), None)
    positions = torch.arange(weights.size(1))
    distances = (positions[None, :] - torch.arange(weights.size(0))[:, None]).abs()
    return HeadSummary(float(entropy), float((weights * distances).sum(dim=1).mean()))


def attention_page(direction: str, sentences: Sequence[ShownSentence]) -> str:
    """Render the page; `direction` is in its title."""
    return render(_TEMPLATE, {"direction": direction, "attention": attention_maps(sentences)})


def attention_maps(sentences: Sequence[ShownSentence]) -> dict[str, Markup]:
    """Return what the macro `attention_maps` of the templates needs: data and script."""
    data = [
        {"source": source, "translation": translation, **_plain(attention)}
        for source, translation, attention in sentences
    ]
    # "<" could end the script element.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return {"data": Markup(text), "script": Markup(_SCRIPT.read_text(encoding="utf-8"))}


def rows_and_columns(kind: str, attention: SentenceAttention) -> tuple[list[str], list[str]]:
    """Return the labels of the rows and columns of an attention map.

    A row of `decoder` or `cross` is the piece that is predicted. The columns of `decoder` are the
    pieces that the decoder reads: BOS, and all target pieces except the last.
    """
    source, target = attention.source, attention.target
    if kind == "encoder":
        return source, source
    return target, source if kind == "cross" else [_BEGIN, *target[:-1]]


def _plain(attention: SentenceAttention) -> dict[str, Any]:
    kinds = {}
    for kind, layers in attention.kinds.items():
        rows, columns = rows_and_columns(kind, attention)
        kinds[kind] = {
            "rows": rows,
            "columns": columns,
            "layers": [
                [_plain_head(head, is_self_attention=kind != "cross") for head in layer]
                for layer in layers
            ],
        }
    return {"kinds": kinds}


def _plain_head(weights: Tensor, is_self_attention: bool) -> dict[str, Any]:
    summary = summarise_head(weights, is_self_attention)
    return {
        "weights": [[round(value, 3) for value in row] for row in weights.tolist()],
        "entropy": round(summary.entropy, 2),
        "distance": None if summary.distance is None else round(summary.distance, 2),
    }
