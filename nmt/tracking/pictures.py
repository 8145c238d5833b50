"""Attention maps as images."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nmt.tracking.tracker import Picture

_CELL = 18  # width and height of a weight, in pixels
_FONT_SIZE = 13  # pixels
_MARGIN = 4  # pixels
_PAPER = (255, 255, 255)
_INK = (20, 20, 20)
_FULL = np.array([20, 60, 140])  # colour of weight 1; that of weight 0 is white


def draw_attention(
    weights: Tensor, rows: Sequence[str], columns: Sequence[str], caption: str
) -> Picture:
    """Draw attention weights (T, S): a weight of 0 is white, and 1 is dark blue.

    `rows` are the T pieces that attend, from top to bottom, and `columns` the S pieces that they
    attend to. Pillow takes some milliseconds; matplotlib would take a hundred.
    """
    from PIL import Image, ImageDraw  # noqa: PLC0415 - slow to import

    font = _font()
    left = _MARGIN * 2 + max(round(font.getlength(piece)) for piece in rows)
    top = _MARGIN * 2 + max(round(font.getlength(piece)) for piece in columns)
    height, width = (size * _CELL for size in weights.shape)
    image = Image.new("RGB", (left + width + _MARGIN, top + height + _MARGIN), _PAPER)
    colours = 255 - weights.double().numpy()[:, :, None] * (255 - _FULL)
    cells = Image.fromarray(colours.round().astype(np.uint8), "RGB")
    image.paste(cells.resize((width, height), Image.Resampling.NEAREST), (left, top))
    draw = ImageDraw.Draw(image)
    draw.rectangle((left - 1, top - 1, left + width, top + height), outline=_INK)
    for row, piece in enumerate(rows):
        middle = top + row * _CELL + _CELL // 2
        draw.text((left - _MARGIN, middle), piece, _INK, font, anchor="rm")
    for column, piece in enumerate(columns):
        label = Image.new("RGB", (top - _MARGIN, _CELL), _PAPER)
        ImageDraw.Draw(label).text((0, _CELL // 2), piece, _INK, font, anchor="lm")
        image.paste(label.rotate(90, expand=True), (left + column * _CELL, 0))
    return Picture(caption, np.asarray(image))


@cache
def _font() -> Any:
    """Return the font of matplotlib, because Pillow's own lacks most scripts."""
    import matplotlib as mpl  # noqa: PLC0415
    from PIL import ImageFont  # noqa: PLC0415

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), _FONT_SIZE)
