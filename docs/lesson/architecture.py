"""A picture of the whole model, whose boxes link to the code."""

from collections.abc import Sequence
from html import escape

# Label, name in the code, file of the code, and shape of the result, from below to above.
Box = tuple[str, str, str, str]

_ENCODER: list[Box] = [
    ("source tokens", "collate", "nmt/data/batch.py", "ids (B, S)"),
    ("embedding · √D", "source_embedding", "nmt/model/encoder_decoder.py", "(B, S, D)"),
    ("+ positions", "AddedPositions", "nmt/model/positions.py", "(B, S, D)"),
    ("self-attention", "MultiHeadAttention", "nmt/model/attention.py", "(B, S, D)"),
    ("add & norm", "Residual", "nmt/model/layers.py", "(B, S, D)"),
    ("feed-forward", "FeedForward", "nmt/model/layers.py", "(B, S, D)"),
    ("add & norm", "Residual", "nmt/model/layers.py", "memory (B, S, D)"),
]
_DECODER: list[Box] = [
    ("target tokens after <s>", "collate", "nmt/data/batch.py", "ids (B, T)"),
    ("embedding · √D", "target_embedding", "nmt/model/encoder_decoder.py", "(B, T, D)"),
    ("+ positions", "AddedPositions", "nmt/model/positions.py", "(B, T, D)"),
    ("causal self-attention", "MultiHeadAttention", "nmt/model/attention.py", "(B, T, D)"),
    ("add & norm", "Residual", "nmt/model/layers.py", "(B, T, D)"),
    ("cross-attention", "MultiHeadAttention", "nmt/model/attention.py", "(B, T, D)"),
    ("add & norm", "Residual", "nmt/model/layers.py", "(B, T, D)"),
    ("feed-forward", "FeedForward", "nmt/model/layers.py", "(B, T, D)"),
    ("add & norm", "Residual", "nmt/model/layers.py", "hidden (B, T, D)"),
    (
        "output projection",
        "project",
        "nmt/model/encoder_decoder.py",
        "logits (B, T, V)",
    ),
    ("training: loss", "SummedLoss", "nmt/training/loss.py", ""),
]
_ATTENTION: list[Box] = [
    ("Q of queries; K, V of memory", "project", "nmt/model/attention.py", "(B, L, H · d)"),
    ("split into heads", "split_heads", "nmt/model/attention.py", "(B, H, L, d)"),
    ("Q Kᵀ / √d_k", "attention_weights", "nmt/model/attention.py", "scores (B, H, T, S)"),
    ("mask, softmax", "attention_weights", "nmt/model/attention.py", "weights (B, H, T, S)"),
    ("weights · V", "attend", "nmt/model/attention.py", "(B, H, T, d_v)"),
    ("concatenate, · W^O", "MultiHeadAttention", "nmt/model/attention.py", "(B, T, D)"),
]  # fmt: skip
_SEARCH: Box = ("decoding: search", "beam_search", "nmt/search/search.py", "")
_WIDTH, _HEIGHT, _PITCH = 200, 40, 68  # of a box, and from a box to the next, in pixels
_BOTTOM = 760
_COLOURS = {"attention": "#cfe2f7", "feed-forward": "#d6efd8", "add & norm": "#f6f0c9"}
_STYLE = (
    "text{font-family:sans-serif;font-size:13px;text-anchor:middle}"
    ".code{font-family:monospace;font-size:11px;fill:#1a4e8a}"
    ".shape{font-size:11px;text-anchor:start;fill:#555}.title{font-weight:bold;font-size:15px}"
    "path{fill:none;stroke:#444;stroke-width:1.4}.skip{stroke:#999;stroke-dasharray:4 3}"
    "rect{stroke:#444;fill:#f4f4f4}.layer{fill:none;stroke:#999;stroke-dasharray:2 3}"
)


def draw_architecture() -> str:
    """Return the picture as SVG: encoder, decoder, and inside an attention sublayer."""
    left, middle, right = 60, 400, 740
    titles = {left: "Encoder", middle: "Decoder", right: "Inside an attention sublayer"}
    parts = [
        *(_text(x + _WIDTH / 2, _BOTTOM + 70, title, "title") for x, title in titles.items()),
        *_column(left, _ENCODER),
        *_column(middle, _DECODER),
        *_column(right, _ATTENTION),
        *_stack(left, 3, 6),
        *_stack(middle, 3, 8),
        *_box(right, _top(10), _SEARCH),
        # The encoder output goes to the cross-attention of every decoder layer.
        _arrow(
            f"M{left + _WIDTH / 2:g},{_top(7) + _HEIGHT:g}H{middle - 60}"
            f"V{_top(5) + _HEIGHT / 2:g}H{middle - 2}"
        ),
        _arrow(
            f"M{middle + _WIDTH},{_top(9) + _HEIGHT / 2:g}H{right + _WIDTH / 2:g}"
            f"V{_top(10) + _HEIGHT + 2:g}"
        ),
    ]
    size = 'width="1000" height="850" viewBox="0 0 1000 850"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>\n<defs><marker'
        ' id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0,0L8,4L0,8" style="fill:#444"/></marker></defs>\n'
        '<rect width="1000" height="850" style="fill:white;stroke:none"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _top(index: int) -> float:
    return _BOTTOM - index * _PITCH


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _arrow(path: str, kind: str = "") -> str:
    return f'<path d="{path}" class="{kind}" marker-end="url(#end)"/>'


def _box(x: float, y: float, box: Box) -> list[str]:
    label, name, file, _ = box
    colour = next((colour for word, colour in _COLOURS.items() if word in label), "#f4f4f4")
    return [
        f'<a href="../../{file}"><title>{name} in {file}</title><rect x="{x:g}" y="{y:g}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" rx="5" style="fill:{colour}"/>',
        _text(x + _WIDTH / 2, y + 17, label),
        _text(x + _WIDTH / 2, y + 33, name, "code") + "</a>",
    ]


def _column(x: float, boxes: Sequence[Box]) -> list[str]:
    """Draw boxes from below to above, with arrows that are labelled with shapes."""
    parts, centre = [], x + _WIDTH / 2
    for index, box in enumerate(boxes):
        y, shape = _top(index), box[3]
        parts += _box(x, y, box)
        if shape:
            parts += [
                _arrow(f"M{centre:g},{y:g}V{y - _PITCH + _HEIGHT + 2:g}"),
                _text(centre + 6, y - 10, shape, "shape"),
            ]
    return parts


def _stack(x: float, first: int, last: int) -> list[str]:
    """Draw the frame around the boxes of N layers, and the residual connections in it."""
    top, bottom = _top(last) - 6, _top(first) + _HEIGHT + 22
    skips = [
        _arrow(
            f"M{x + _WIDTH / 2:g},{_top(index) + _HEIGHT + 14:g}H{x - 18:g}"
            f"V{_top(index + 1) + _HEIGHT / 2:g}H{x - 2:g}",
            "skip",
        )
        for index in range(first, last, 2)
    ]
    return [
        f'<rect x="{x - 34:g}" y="{top:g}" width="{_WIDTH + 44}" height="{bottom - top:g}"'
        ' rx="8" class="layer"/>',
        _text(x + _WIDTH + 26, (top + bottom) / 2, "× N"),
        *skips,
    ]
