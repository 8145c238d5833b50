"""The import of a folder of unknown origin: read it, write a model folder, and compare both."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.base.errors import one_line
from nmt.base.progress import Advance
from nmt.config import to_plain
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.foreign_tokenizer import plain_piece
from nmt.exchange.import_request import NUM_TEXTS, Imported, Request
from nmt.exchange.registry import open_importer
from nmt.exchange.verify import Text, compare
from nmt.model.build import count_parameters
from nmt.trained_model import TrainedModel, save_trained_model


def import_folder(
    request: Request, send: Callable[..., None], start_comparison: Callable[[], None]
) -> Imported:
    """Import a folder.

    Args:
        request: what to import.
        send: sends a message; see `nmt.exchange.confined`.
        start_comparison: called when the model is written.

    Raises:
        UserError: the folder cannot be imported, or the original computes something else.
    """
    folder = ForeignFolder(Path(request.folder), lambda name: send(file=name))
    importer = open_importer(folder.path, request.name)
    folder.check_contents()
    with folder.errors_named():
        model = importer.load(folder, Path(request.workspace), request.direction)
        save_trained_model(model, Path(request.out), {})
    send(line=f"model: {model.config.direction}")
    start_comparison()

    @contextmanager
    def bar(title: str, total: int | None) -> Iterator[Advance]:
        send(title=title, total=total)
        yield lambda count: send(advance=count)

    sources = request.texts or list(_made_up(model))
    text = Text(f"{len(sources):,} lines", sources)
    with folder.errors_named():
        compared = compare(lambda: importer.open(model, folder), model, text, bar)
    num_parameters = count_parameters(model.network)
    return Imported(to_plain(model.config), num_parameters, compared, _languages(model))


def _made_up(model: TrainedModel) -> Iterator[str]:
    """Yield at most `NUM_TEXTS` texts of random pieces of the source vocabulary."""
    generator, tokenizer = random.Random(1), model.source_tokenizer
    ids = [index for index in range(tokenizer.vocabulary_size) if index != tokenizer.unknown_id]
    for _ in range(NUM_TEXTS):
        [text] = tokenizer.decode([generator.choices(ids, k=generator.randint(3, 20))])
        if text.isprintable() and "\ufffd" not in text:  # U+FFFD stands for invalid UTF-8
            yield text


def _languages(model: TrainedModel) -> list[str]:
    pieces = map(plain_piece, model.source_tokenizer.all_pieces())
    return [one_line(piece) for piece in pieces if piece.startswith(">>")]
