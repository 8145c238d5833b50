"""Pictures of the lesson, which show the values of its session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

from docs.lesson.architecture import draw_architecture

_WORDS = ["Dogs", "need", "walks"]


def _draw_table(
    axes: Any,
    title: str,
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    mask: Tensor | None = None,
) -> None:
    """Draw (T, S) weights with their numbers; cells where the mask is False are grey."""
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_title(title, pad=10)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for row, column in torch.cartesian_prod(*map(torch.arange, weights.shape)).tolist():
        weight = weights[row, column].item()
        if mask is None or mask[row, column]:
            colour = "white" if weight > 0.6 else "black"
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour)
        else:
            axes.fill_between([column - 0.5, column + 0.5], row - 0.5, row + 0.5, color="0.8")
            axes.text(column, row, "−∞", ha="center", va="center", color="0.4")


def draw_weights(figure: Any, values: dict[str, Any]) -> None:
    """Static and dynamic attention of the three words."""
    tables = {
        "static: all words": values["uniform"],
        "static: the word before": values["before"],
        "dynamic: Q = K = V": values["similar"],
        "dynamic: with W^Q, W^K": values["attention"].weights(*[values["sentence"]] * 2)[0, 0],
    }
    for axes, (title, weights) in zip(figure.subplots(1, 4), tables.items(), strict=True):
        _draw_table(axes, title, weights, _WORDS, _WORDS)


def draw_scale(figure: Any, values: dict[str, Any]) -> None:
    """The largest of ten weights by d_k, without and with the scale."""
    widths = [2**power for power in range(11)]
    inputs = [(torch.randn(1000, 1, width), torch.randn(1000, 10, width)) for width in widths]
    unscaled = [(queries @ keys.mT).softmax(dim=-1) for queries, keys in inputs]
    scaled = [values["attention_weights"](*pair) for pair in inputs]
    axes = figure.subplots()
    for label, found in (("softmax(q · k)", unscaled), ("softmax(q · k / √d_k)", scaled)):
        axes.plot(widths, [weights.amax(dim=-1).mean() for weights in found], "o-", label=label)
    axes.axhline(0.1, color="0.6", linestyle=":")
    axes.text(1, 0.12, "all weights equal", color="0.4")
    axes.set_xscale("log", base=2)
    axes.set(ylim=(0, 1), xlabel="d_k", ylabel="largest of ten weights")
    axes.legend(frameon=False)


def draw_masks(figure: Any, values: dict[str, Any]) -> None:
    """The weights of self-attention without a mask and with each mask."""
    attention, sentence, batch = (values[name] for name in ("attention", "sentence", "batch"))
    padded = values["padding_mask"]
    everything = attention.weights(sentence, sentence)[0, 0]
    causal = attention.weights(sentence, sentence, is_causal=True)[0, 0]
    without_padding = attention.weights(batch, batch, padded)[1, 0]
    left, middle, right = figure.subplots(1, 3)
    _draw_table(left, "no mask", everything, _WORDS, _WORDS)
    _draw_table(middle, "causal mask", causal, _WORDS, _WORDS, values["causal_mask"](3))
    words = [*_WORDS[:2], "(pad)"]
    _draw_table(right, "padding mask", without_padding, words, words, padded[1, 0].expand(3, 3))


def draw_positions(figure: Any, values: dict[str, Any]) -> None:
    """Vectors of sinusoidal positions, and their dot products."""
    table = values["sinusoidal_table"](50, 64)
    left, right = figure.subplots(1, 2)
    image = left.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    left.set(title="PE(pos, component)", xlabel="component", ylabel="pos")
    figure.colorbar(image)
    image = right.imshow(table @ table.mT, cmap="viridis")
    right.set(title="PE(pos) · PE(pos')", xlabel="pos'", ylabel="pos")
    figure.colorbar(image)


def draw_norms(figure: Any, values: dict[str, Any]) -> None:
    """Standard deviation and gradient by the number of sublayers, post-norm and pre-norm."""
    numbers = (1, 2, 4, 8, 16, 24, 32, 40, 48)
    left, right = figure.subplots(1, 2)
    for norm in ("post", "pre"):
        deviations, gradients = zip(*(values["through"](norm, n) for n in numbers), strict=True)
        left.plot(numbers, deviations, "o-", label=f"{norm}-norm")
        right.plot(numbers, gradients, "o-", label=f"{norm}-norm")
    left.set(title="standard deviation after n sublayers", xlabel="n", ylim=(0, None))
    right.set(title="share of the gradient that returns", xlabel="n", yscale="log")
    left.legend(frameon=False)


def draw_reversal(figure: Any, values: dict[str, Any]) -> None:
    """Cross-attention of the trained model, mean of the heads of each layer."""
    seen = values["seen"]
    target, source = ([piece.strip("▁") for piece in side] for side in (seen.target, seen.source))
    layers = seen.kinds["cross"]
    for number, axes in enumerate(figure.subplots(1, len(layers))):
        title = f"cross-attention, layer {number + 1}"
        _draw_table(axes, title, layers[number].mean(dim=0), target, source)


# Name, width and height in inches, and drawing of each picture.
PICTURES: dict[str, tuple[tuple[float, float], Callable[[Any, dict[str, Any]], None]]] = {
    "lesson_weights.png": ((11, 2.9), draw_weights),
    "lesson_scale.png": ((5.5, 3), draw_scale),
    "lesson_masks.png": ((8.5, 3), draw_masks),
    "lesson_positions.png": ((9, 3.6), draw_positions),
    "lesson_norms.png": ((9, 3), draw_norms),
    "lesson_reversal.png": ((9, 4.2), draw_reversal),
}


@torch.no_grad()
def draw_pictures(folder: Path, values: dict[str, Any]) -> None:
    """Draw all pictures from the variables of the session."""
    for name, (size, draw) in PICTURES.items():
        figure = Figure(figsize=size, layout="constrained")
        with torch.random.fork_rng(devices=[]), rc_context({"axes.titlesize": "medium"}):
            torch.manual_seed(1)
            draw(figure, values)
        figure.savefig(folder / name, dpi=100)
    (folder / "architecture.svg").write_text(draw_architecture(), encoding="utf-8")
