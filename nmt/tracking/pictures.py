"""Attention maps as images."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nmt.tracking.tracker import Picture
from nmt.translation.attention import AttentionMap

_CELL = 18  # width and height of a weight, in pixels
_FONT_SIZE = 13
_MARGIN = 4
_PAPER = (255, 255, 255)
_INK = (20, 20, 20)
_FULL = np.array([20, 60, 140])  # colour of weight 1; that of weight 0 is white


def draw_attention(attention: AttentionMap, caption: str) -> Picture:
    """Draw an attention map: the source from left to right, the translation from top to bottom.

    Pillow takes some milliseconds; matplotlib would take a hundred.
    """
    from PIL import Image, ImageDraw  # noqa: PLC0415 - slow to import

    weights = np.array(attention.mean)  # (T, S)
    font = _font()
    left = _MARGIN * 2 + max(round(font.getlength(piece)) for piece in attention.target)
    top = _MARGIN * 2 + max(round(font.getlength(piece)) for piece in attention.source)
    height, width = (size * _CELL for size in weights.shape)
    image = Image.new("RGB", (left + width + _MARGIN, top + height + _MARGIN), _PAPER)
    colours = 255 - weights[:, :, None] * (255 - _FULL)
    cells = Image.fromarray(colours.round().astype(np.uint8), "RGB")
    image.paste(cells.resize((width, height), Image.Resampling.NEAREST), (left, top))
    draw = ImageDraw.Draw(image)
    draw.rectangle((left - 1, top - 1, left + width, top + height), outline=_INK)
    for row, piece in enumerate(attention.target):
        middle = top + row * _CELL + _CELL // 2
        draw.text((left - _MARGIN, middle), piece, _INK, font, anchor="rm")
    for column, piece in enumerate(attention.source):
        label = Image.new("RGB", (top - _MARGIN, _CELL), _PAPER)
        ImageDraw.Draw(label).text((0, _CELL // 2), piece, _INK, font, anchor="lm")
        image.paste(label.rotate(90, expand=True), (left + column * _CELL, 0))
    return Picture(caption, np.asarray(image))


@cache
def _font() -> Any:
    """The font of matplotlib, because Pillow's own lacks most scripts."""
    import matplotlib as mpl  # noqa: PLC0415
    from PIL import ImageFont  # noqa: PLC0415

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), _FONT_SIZE)
