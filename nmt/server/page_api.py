"""What the page needs besides the API: sentences with alternatives, next words, attention."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from pydantic import Field
from starlette.responses import HTMLResponse

from nmt.evaluation.attention_page import attention_page
from nmt.server.errors import ApiError
from nmt.server.gate import Gate, unless_left
from nmt.server.inputs import Direction
from nmt.server.languages import ServedModel
from nmt.server.routes import add_routes
from nmt.server.worker import Options
from nmt.translation.attention import sentence_attention
from nmt.translation.documents import Document
from nmt.translation.request import Request as Text
from nmt.translation.request import Translation

_NUM_CHOICES = 8
_OPTIONS = Options(is_protected=False, has_details=True, is_sentence=True)
_SHOWN = ("text", "score", "alignment", "notes", "confidence", "word_confidence", "expected_chrf")

# The page of attention has its script and style in itself. It gets no origin, so it can do nothing
# in the name of this server.
_ATTENTION_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " frame-ancestors 'none'; sandbox allow-scripts"
)


class SentencesInput(Direction):
    """Parameters of `/page/sentences`."""

    q: str
    """Text to translate."""


class ChoicesInput(Direction):
    """Parameters of `/page/choices`."""

    q: str = Field(pattern=r"\S")
    """A sentence."""
    prefix: str = ""
    """Words that its translation begins with."""


class AttentionInput(Direction):
    """Parameters of `/page/attention`."""

    q: str = Field(pattern=r"\S")
    """A sentence."""
    translation: str
    """Its translation."""


class PageApi:
    """Handlers for the page."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def add_to(self, app: FastAPI) -> None:
        """Add the routes, which are not part of the documented API."""
        add_routes(app, "/page/sentences", self.sentences, SentencesInput, is_public=False)
        add_routes(app, "/page/choices", self.choices, ChoicesInput, is_public=False)
        add_routes(app, "/page/attention", self.attention, AttentionInput, is_public=False)

    async def sentences(self, request: Request) -> dict[str, Any]:
        """Translate a text sentence by sentence, with alternatives and alignments."""
        given = await self._gate.read(request, SentencesInput)
        [(model, confidence)] = self._gate.choose(given, [given.q])
        document = Document.split(given.q, model.source)
        texts = [Text(one) for one in document.sentences]
        options = replace(given.options, has_alternatives=True, has_details=True, is_sentence=True)
        found = await unless_left(request, model.worker.translate(texts, options))
        return {
            "model": model.name,
            "source": model.source,
            "confidence": confidence,
            "separators": document.target_separators(model.worker.blank),
            "sentences": [
                {"source": source, "translations": list(map(_shown, translations))}
                for source, translations in zip(document.sentences, found, strict=True)
            ],
        }

    async def choices(self, request: Request) -> dict[str, Any]:
        """Return translations of a sentence that differ in the word after a prefix."""
        given = await self._gate.read(request, ChoicesInput)
        worker = self._one_sentence(given, [given.q, given.prefix]).worker
        # Protected spans and prefixes exclude each other.
        options = replace(_OPTIONS, glossary=given.options.glossary, has_prefixes=True)
        work = worker.call(lambda: worker.choices(given.q, given.prefix, _NUM_CHOICES, options))
        return {"translations": list(map(_shown, await unless_left(request, work)))}

    async def attention(self, request: Request) -> HTMLResponse:
        """Return a page with the attention of all layers and heads."""
        given = await self._gate.read(request, AttentionInput)
        pair = (given.q, given.translation)
        model = self._one_sentence(given, pair)
        trained = model.worker.model
        work = model.worker.call(lambda: sentence_attention(trained, *pair))
        found = await unless_left(request, work)
        page = attention_page(trained.config.direction, [(*pair, found)])
        return HTMLResponse(page, headers={"content-security-policy": _ATTENTION_POLICY})

    def _one_sentence(self, given: Direction, texts: Sequence[str]) -> ServedModel:
        """Return the model; raise ApiError unless it can read a sentence and its translation."""
        (model, _), *_ = self._gate.choose(given, texts)
        trained = model.worker.model
        limits = (trained.config.max_source_length, trained.config.model.max_length)
        for text, tokenizer, limit in zip(texts, trained.tokenizers, limits, strict=True):
            if len(tokenizer.encode([text])[0]) >= limit - 1:
                raise ApiError(413, "the sentence is too long for the model")
        return model


def _shown(one: Translation) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _SHOWN}
