"""Where the decoder looks: attention of some translations, and its picture as inline SVG."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from nmt.decoding.forced import ForcedDecoder
from nmt.decoding.formats import END
from nmt.html_page import text
from nmt.trained_model import TrainedModel

STYLE = """
svg.attention { width: auto; max-width: none; } svg.attention text { fill: var(--ink); }
svg.attention .cell { fill: var(--bar); }
svg.attention .frame { fill: none; stroke: var(--line); }
.heads { display: flex; flex-wrap: wrap; gap: 1rem; } .heads figure { margin: 0; }
"""

_FEWEST_PIECES, _MOST_PIECES = 4, 16
_CELL, _SMALL_CELL = 24, 7
_MOST_LABEL = 14


@dataclass(frozen=True)
class AttentionMap:
    """Cross-attention of the last decoder layer over one sentence.

    Attributes:
        source: pieces of the source, EOS last.
        target: pieces of the translation, EOS last.
        heads: (H, T, S) weights; each row sums to one.
    """

    source: list[str]
    target: list[str]
    heads: Tensor

    @property
    def mean(self) -> list[list[float]]:
        """The weights averaged over heads."""
        rows: list[list[float]] = self.heads.mean(dim=0).tolist()
        return rows


def attention_map(model: TrainedModel, source: str, translation: str) -> AttentionMap:
    """Which pieces of the source the decoder attends to as it says each piece of a translation.

    The translation is encoded again and given to the decoder as it is.
    """
    source_ids = model.source_tokenizer.encode([source])[0]
    target_ids = model.target_tokenizer.encode([translation])[0]
    [(_, layers)] = ForcedDecoder(model).cross_attention([(source_ids, target_ids)])
    return AttentionMap(
        [*model.source_tokenizer.pieces(source_ids), END],
        [*model.target_tokenizer.pieces(target_ids), END],
        layers[-1],
    )


def short_sentences(
    model: TrainedModel, sources: Sequence[str], translations: Sequence[str], number: int
) -> list[int]:
    """Places of sentences short enough for a picture, evenly spaced; fewer where there are not."""
    limits = (model.config.max_source_length, model.config.model.max_length)
    most = min(_MOST_PIECES, *(limit - 1 for limit in limits))
    lengths = [
        (min(len(source), len(target)), max(len(source), len(target)))
        for source, target in zip(
            model.source_tokenizer.encode(sources),
            model.target_tokenizer.encode(translations),
            strict=True,
        )
    ]
    for fewest in (_FEWEST_PIECES, 1):
        fit = [place for place, (low, high) in enumerate(lengths) if fewest <= low <= high <= most]
        if len(fit) >= number:
            break
    return sorted({fit[len(fit) * i // number] for i in range(number)} if fit else ())


def heat_map(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], title: str
) -> str:
    """Weights, 0 to 1, as cells that are the fuller the larger; rows and columns are named."""
    left = 14 + max(map(_label_width, rows), default=0)
    # Names of columns stand slantwise.
    top = 14 + 0.75 * max(map(_label_width, columns), default=0)
    wide = left + len(columns) * _CELL + 0.5 * _label_width(columns[-1] if columns else "") + 10
    high = top + len(rows) * _CELL + 4
    shapes = []
    for number, name in enumerate(columns):
        x = left + (number + 0.5) * _CELL
        slanted = f"translate({x:.0f} {top - 6:.0f}) rotate(-50)"
        shapes.append(f'<text transform="{slanted}">{_label(name)}</text>')
    for number, (name, values) in enumerate(zip(rows, weights, strict=True)):
        y = top + number * _CELL
        middle = y + _CELL / 2 + 4
        shapes.append(
            f'<text x="{left - 6:.0f}" y="{middle:.0f}" text-anchor="end">{_label(name)}</text>'
        )
        for place, (column, weight) in enumerate(zip(columns, values, strict=True)):
            x = left + place * _CELL
            shapes.append(
                f'<rect class="cell" x="{x:.0f}" y="{y:.0f}" width="{_CELL - 1}"'
                f' height="{_CELL - 1}" fill-opacity="{weight:.3f}">'
                f"<title>{_label(name)} → {_label(column)}: {weight:.2f}</title></rect>"
            )
    shapes.append(_frame(left, top, len(columns) * _CELL, len(rows) * _CELL))
    return _attention_svg(wide, high, title, shapes)


def small_heat_map(weights: Sequence[Sequence[float]], title: str) -> str:
    """The same without names, to be held against others."""
    wide, high = max(map(len, weights), default=0) * _SMALL_CELL, len(weights) * _SMALL_CELL
    shapes = [
        f'<rect class="cell" x="{place * _SMALL_CELL}" y="{number * _SMALL_CELL}"'
        f' width="{_SMALL_CELL}" height="{_SMALL_CELL}" fill-opacity="{weight:.3f}"/>'
        for number, row in enumerate(weights)
        for place, weight in enumerate(row)
        if weight >= 0.01
    ]
    return _attention_svg(wide, high, title, [*shapes, _frame(0, 0, wide, high)])


def _frame(x: float, y: float, wide: float, high: float) -> str:
    return f'<rect class="frame" x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}"/>'


def _attention_svg(wide: float, high: float, title: str, shapes: Sequence[str]) -> str:
    return (
        f'<svg class="attention" width="{wide:.0f}" height="{high:.0f}" role="img"'
        f' aria-label="{text(title)}">{"".join(shapes)}</svg>'
    )


def _label(name: str) -> str:
    return text(name if len(name) <= _MOST_LABEL else name[: _MOST_LABEL - 1] + "…")


def _label_width(name: str) -> float:
    """About how many pixels a name takes."""
    shown = name[:_MOST_LABEL]
    return sum(13.0 if unicodedata.east_asian_width(c) in "WF" else 7.2 for c in shown)
