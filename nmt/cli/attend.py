"""Show the attention of all layers and heads in translations of sentences.

nmt attend text="A sentence." [model=FOLDER] [layer=6]
"""

from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import UserError
from nmt.base.files import write_texts
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs
from nmt.cli.application import application
from nmt.cli.models import ModelArguments, model_folder, open_model
from nmt.config import checked_dataclass

if TYPE_CHECKING:
    from nmt.tokenizer import Tokenizer
    from nmt.trained_model import TrainedModel
    from nmt.translation.attention import SentenceAttention

_PAGE = "attention.html"
_RECORD = "attention.json"
_MAX_SENTENCES = 20


@checked_dataclass
class _Arguments(ModelArguments):
    text: str = ""
    """The sentences, one a line."""
    translation: str = ""
    """Their translations, one a line (default: those of the model)."""
    layer: int = 0
    """Layer to draw, counted from 1; 0 draws the last layer of each kind of attention."""
    out: str = "outputs/attention"
    """Folder for attention.html and the images; an earlier one is replaced."""


@application(_Arguments)
def main(arguments: _Arguments) -> None:
    """Run the command."""
    from nmt.evaluation.attention_page import attention_page
    from nmt.translation.attention import sentence_attention

    texts = [line for line in arguments.text.split("\n") if line.strip()]
    if not texts:
        raise UserError('text= is empty; give a sentence, such as text="A sentence."')
    if len(texts) > _MAX_SENTENCES:
        raise UserError(f"text= has {len(texts)} lines; a page shows at most {_MAX_SENTENCES}")
    with Outputs.folder(Path(arguments.out), record=_RECORD) as outputs:
        model = open_model(model_folder(arguments.model), arguments.device)
        pairs = list(zip(texts, _translations(arguments, model, texts), strict=True))
        sentences = [(*pair, sentence_attention(model, *pair)) for pair in pairs]
        num_layers = max(len(layers) for *_, shown in sentences for layers in shown.kinds.values())
        layer = arguments.layer or num_layers
        if not 1 <= layer <= num_layers:
            raise UserError(f"layer={layer}: the model has {num_layers} layers with attention")
        with outputs.written() as [folder]:
            write_texts({folder / _PAGE: attention_page(model.config.direction, sentences)})
            for number, (source, translation, attention) in enumerate(sentences, start=1):
                print_line(f"{source} → {translation}")
                prefix = f"{number}-" if len(sentences) > 1 else ""
                _write_images(attention, layer, folder, prefix, source)
    print_written(outputs.written_files())


def _translations(arguments: _Arguments, model: "TrainedModel", texts: list[str]) -> list[str]:
    from nmt.translation.request import notes_on
    from nmt.translation.translator import Translator

    _check_lengths("", texts, model.source_tokenizer, model.config.max_source_length)
    if arguments.translation:
        given = [line for line in arguments.translation.split("\n") if line.strip()]
        if len(given) != len(texts):
            raise UserError(
                f"translation= has {len(given)} lines with text, but text= has {len(texts)}"
            )
    else:
        found = Translator(model, arguments.decoding_config(model)).translate(texts)
        for note in notes_on(found):
            print_line(note)
        given = [best.text for best, *_ in found]
    _check_lengths("translation ", given, model.target_tokenizer, model.config.model.max_length)
    return given


def _check_lengths(kind: str, texts: list[str], tokenizer: "Tokenizer", limit: int) -> None:
    """Raise UserError if a text with EOS exceeds `limit` tokens; the message begins with `kind`."""
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        if len(ids) >= limit:
            raise UserError(
                f"{kind}{text[:60]!r} has {len(ids)} pieces, and the model takes {limit - 1}:"
                " give one sentence a line"
            )


def _write_images(
    attention: "SentenceAttention", layer: int, folder: Path, prefix: str, caption: str
) -> None:
    """Draw one layer of each kind of attention, the mean over its heads, as `<prefix><kind>.png`.

    If the encoder or the decoder has fewer layers than `layer`, draw its last layer.
    """
    from PIL import Image

    from nmt.evaluation.attention_page import rows_and_columns
    from nmt.tracking.pictures import draw_attention

    for kind, layers in attention.kinds.items():
        rows, columns = rows_and_columns(kind, attention)
        weights = layers[min(layer, len(layers)) - 1].mean(dim=0)
        picture = draw_attention(weights, rows, columns, caption)
        Image.fromarray(picture.pixels).save(folder / f"{prefix}{kind}.png")
