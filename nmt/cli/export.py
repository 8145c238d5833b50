"""Write a trained model in the form of another program.

python -m nmt.cli.export model=FOLDER format=ctranslate2
"""

import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nmt.cli.common import name_files, parse_arguments, run_command, set_up_logging
from nmt.config import DecodingConfig, LengthPenalty
from nmt.decoding.hypothesis import penalty_exponent
from nmt.errors import UserError
from nmt.files import atomic_folder, check_writable
from nmt.model.transformer import count_parameters
from nmt.trained_model import README_FILE, TrainedModel, load_trained_model
from nmt.training.experiment import find_model

USAGE = """python -m nmt.cli.export [model=FOLDER] [format=ctranslate2] [out=FOLDER]

  model=FOLDER    a trained model's folder (default: that of the last completed run)
  format=FORMAT   ctranslate2: for CTranslate2's own Translator, with the tokenizer beside it
  out=FOLDER      where to (default: the model's folder with -ctranslate2 at the end); an earlier
                  export there is replaced"""

_MODEL_FILE = "model.bin"


class Format(Enum):
    """Whose form."""

    ctranslate2 = "ctranslate2"


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    model: str = ""
    format: Format = Format.ctranslate2
    out: str = ""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    folder = Path(arguments.model) if arguments.model else find_model()
    model = load_trained_model(folder)
    named = folder.resolve() if folder.name in ("", "..") else folder
    default = named.with_name(f"{named.name}-{arguments.format.value}")
    out = Path(arguments.out) if arguments.out else default
    if out.exists() and not (out / _MODEL_FILE).is_file():
        raise UserError(f"out={out} is there already, and no earlier export; name another folder")
    check_writable(out)
    _export_to_ctranslate2(model, out)
    name_files(sorted(out.iterdir()))


def _export_to_ctranslate2(model: TrainedModel, out: Path) -> None:
    # Imported here: `--help` does not wait for it.
    from nmt.decoding.ctranslate2_folder import convert  # noqa: PLC0415

    with atomic_folder(out, 4 * count_parameters(model.transformer)) as temporary:
        convert(model, temporary)
        for tokenizer in (model.source_tokenizer, model.target_tokenizer):
            shutil.copyfile(tokenizer.path, temporary / tokenizer.path.name)
        (temporary / README_FILE).write_text(_readme(model), encoding="utf-8")


def _readme(model: TrainedModel) -> str:
    config = model.config
    banned = model.target_tokenizer.pieces(
        (model.target_tokenizer.pad_id, model.target_tokenizer.bos_id)
    )
    return f"""# Translator {config.source_language}-{config.target_language}, for CTranslate2

Its tokens are the pieces of the tokenizers here; CTranslate2 itself adds EOS and BOS.

    import ctranslate2, sentencepiece

    source = sentencepiece.SentencePieceProcessor(model_file="{model.source_tokenizer.path.name}")
    target = sentencepiece.SentencePieceProcessor(model_file="{model.target_tokenizer.path.name}")
    translator = ctranslate2.Translator(".", compute_type="float32")
    results = translator.translate_batch(
        source.encode(["A sentence."], out_type=str),
        beam_size={config.decoding.beam_size},
        length_penalty={penalty_exponent(config.decoding)},
        min_decoding_length={max(0, config.decoding.min_length - 1)},
        no_repeat_ngram_size={config.decoding.no_repeat_ngram},
        max_decoding_length={config.model.max_length},
        disable_unk=True,
        suppress_sequences={[[piece] for piece in banned]},
    )
    print(target.decode(results[0].hypotheses[0]))

Sources have at most {config.max_source_length - 1} tokens, translations {config.model.max_length};
the scores of the model were made with translations of at most {_longest(config.decoding)}.
{_PENALTIES[config.decoding.length_penalty_kind]}
"""


_PENALTIES = {
    LengthPenalty.gnmt: (
        "The length penalty of CTranslate2 is n ** alpha; the scores of the model were made with\n"
        "((5 + n) / 6) ** alpha, so some translations differ."
    ),
    LengthPenalty.average: "The length penalty is n, as for the scores of the model.",
    LengthPenalty.none: "There is no length penalty, as for the scores of the model.",
}


def _longest(decoding: DecodingConfig) -> str:
    told = f"{decoding.max_length_ratio:g} times the source and {decoding.max_length_offset} tokens"
    return f"{told}, or {decoding.max_length}" if decoding.max_length else told


if __name__ == "__main__":
    run_command(main)
