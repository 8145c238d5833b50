"""Use sentencepiece models of the user, `tokenizer.path`, instead of learning subwords."""

from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.files import check_readable
from nmt.base.terms import TERM_TAGS
from nmt.config import CorpusConfig, TokenizerConfig
from nmt.tokenizer import Tokenizer, completed_model, tokenizer_files


def open_own(path: Path) -> Tokenizer:
    """Open a model of the user; padding and BOS are added if it lacks them."""
    return Tokenizer(path, completed_model(path))


def own_models(tokenizer: TokenizerConfig, corpus: CorpusConfig) -> list[Path]:
    """Return the models that `tokenizer.path` names: none, one for both languages, or one for each.

    Raises:
        UserError: a file is missing, is not a model, or lacks a special piece; or the model of the
            source language lacks the tag of one of `corpus.sources`, or those of terms.
    """
    if not tokenizer.path:
        return []
    path = Path(tokenizer.path)
    names = tokenizer_files(tokenizer.joint, *corpus.languages)
    models = [path / name for name in dict.fromkeys(names)] if path.is_dir() else [path]
    if not tokenizer.joint and not path.is_dir():
        raise UserError(
            f"tokenizer.path={path} is not a folder; tokenizer.joint=false needs one with"
            f" {' and '.join(names)}"
        )
    for model in models:
        check_readable(model)
    tokenizers = [open_own(model) for model in models]
    pieces = tokenizers[0].all_pieces()
    for name, source in corpus.sources.items():
        if source.tag and source.tag not in pieces:
            raise UserError(
                f"{models[0]}: lacks the piece {source.tag}, corpus.sources.{name}.tag; set the tag"
                " to a piece of this model"
            )
    if corpus.terminology and not set(TERM_TAGS) <= set(pieces):
        raise UserError(
            f"{models[0]}: lacks the pieces {', '.join(TERM_TAGS)}, which corpus.terminology needs;"
            " leave it out, or use a model learned with it"
        )
    return models
