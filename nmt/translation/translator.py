"""Translation of texts: the one decoding path of validation, `translate` and `evaluate`."""

import re
import unicodedata
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, reduce
from itertools import islice

from nmt.base.errors import UserError
from nmt.base.languages import continues_word, has_sentence_blanks
from nmt.base.progress import Advance
from nmt.config import DecodingConfig
from nmt.search import request as search
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Ids
from nmt.search.required import missing, occurs
from nmt.trained_model import TrainedModel
from nmt.translation.engine import Engine
from nmt.translation.glossary import Glossary
from nmt.translation.request import Request, Translation, joined
from nmt.translation.sentences import Segmenter
from nmt.translation.torch_engine import TorchEngine

_ADDRESS = re.compile("(?:https?://|www[.]).+|[^@]+@[^@]+")  # of a page or of a person
_MARK_OF_BPE = "@@ "
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # piece for a character that is not in the vocabulary


def is_untranslatable(text: str) -> bool:
    """Return whether a text has no letters, apart from those of URLs and e-mail addresses.

    Models invent translations of such texts, which hardly occur in their training text.
    """
    is_visible = any(unicodedata.category(c)[0] in "LNPS" for c in text)
    others = (word for word in text.split() if not _ADDRESS.fullmatch(word))
    return is_visible and not any(map(str.isalpha, "".join(others)))


class Translator:
    """Translates texts with a trained model.

    Args:
        model: the model, with its tokenizers and limits.
        config: search options; None takes those that the model was scored with.
        engine: engine that searches; None is torch on the device of the model.

    Attributes:
        glossary: terms to be used in translations. Whoever takes a translation counts the outcome
            of its terms, because a text may be translated more than once.
        blank: separates the translations of consecutive segments or sentences; may be empty.
    """

    def __init__(
        self,
        model: TrainedModel,
        config: DecodingConfig | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.glossary: Glossary | None = None
        self.config = config or model.config.decoding
        self._target = model.target_tokenizer
        self._engine = engine or TorchEngine(model, self.config)
        self.blank = " " if has_sentence_blanks(model.config.target_language) else ""
        language = model.config.source_language
        max_ids = self._engine.longest_source - 1  # without EOS
        self._segmenter = Segmenter(model.source_tokenizer, language, max_ids)

    def translate(
        self, requests: Sequence[Request | str], progress: Advance | None = None
    ) -> list[list[Translation]]:
        """Translate texts; in float32, the result does not depend on their order or the batch size.

        Args:
            requests: one sentence each; a string is a request without constraints. A blank text has
                an empty translation; with `copy_untranslatable`, one without letters is copied.
            progress: called with the number of segments just completed.

        Returns:
            For each text one to num_best translations, best first.

        Raises:
            UserError: constraints cannot be fulfilled.
        """
        given = [Request(one) if isinstance(one, str) else one for one in requests]
        if self.glossary:
            given = list(map(self.glossary.applied, given))
        given = list(map(self._with_source, given))
        copied = [self._is_copied(request) for request in given]
        searched = [
            "" if is_copied else request.annotated or request.source
            for request, is_copied in zip(given, copied, strict=True)
        ]
        segments = self._segmenter.segments(searched)
        constraints = list(map(self._constraints, given, segments))
        found = self._engine.search(
            [ids for some in segments for ids in some],
            progress,
            [wanted for wanted, some in zip(constraints, segments, strict=True) for _ in some],
        )
        decoded = iter(self._decoded(found))
        translations = []
        rows = zip(given, constraints, segments, copied, strict=True)
        for request, wanted, some, is_copied in rows:
            if is_copied:
                text = request.source.strip().replace("\n", " ")
                translations.append([Translation(text, 0.0)])
                continue
            parts = [next(decoded) for _ in some]
            # Join the best translations of all segments, then all second-best ones, and so on.
            ranks = list(zip(*parts, strict=False)) or [()]
            notes = self._notes(request, wanted, parts)
            joined_ranks = [_joined(rank, self.blank) for rank in ranks]
            translations.append([replace(one, notes=notes) for one in joined_ranks])
        return self._with_warning(given, translations)

    @property
    def engine_note(self) -> str:
        """See `Engine.note`."""
        return self._engine.note

    def with_glossary(self, glossary: Glossary) -> "Translator":
        """Return a translator that uses the terms of a glossary.

        Raises:
            UserError: neither the engine nor the model supports terms.
        """
        if not (self._engine.can_require or glossary.is_annotated):
            raise UserError(
                "glossary= needs engine=torch or engine=auto, because the model was not trained"
                " with corpus.terminology; change engine=, or remove glossary="
            )
        other = copy(self)
        other.glossary = glossary
        return other

    def scoring(self) -> "Translator":
        """Return a translator whose translations have token_log_probs, if the engine has them."""
        other = copy(self)
        other._engine = self._engine.scoring
        return other

    def _with_source(self, request: Request) -> Request:
        """Choose between required terms and, if the engine has none, an annotated source."""
        if self._engine.can_require or not self._segmenter.fits(request.annotated):
            return replace(request, annotated="")
        return replace(request, terms=())

    def _is_copied(self, request: Request) -> bool:
        config = self.config
        is_plain = config.copy_untranslatable and not config.trees
        is_free = not (request.is_constrained or request.annotated)
        return is_plain and is_free and is_untranslatable(request.source)

    def _with_warning(
        self, requests: Sequence[Request], translations: list[list[Translation]]
    ) -> list[list[Translation]]:
        """Add a note to the translations of the first text that was already split into pieces."""
        split = (i for i, request in enumerate(requests) if _MARK_OF_BPE in request.source)
        for index in islice(split, 1):
            note = f"contains {_MARK_OF_BPE!r}, as text that subword-nmt has split; give plain text"
            translations[index] = [
                replace(one, notes=(*one.notes, note)) for one in translations[index]
            ]
        return translations

    @property
    def can_require(self) -> bool:
        """Whether the engine can require phrases and terms of a translation."""
        return self._engine.can_require

    def check(self, request: Request) -> None:
        """Raise UserError if the constraints of a sentence cannot be fulfilled."""
        if request.is_constrained:
            self._encoded(request)

    def can_write(self, text: str) -> bool:
        """Return whether the model has learnt all characters of a text, not only their bytes."""
        [ids] = self._target.encode([text])
        pieces = self._target.pieces(ids)
        return self._target.unknown_id not in ids and not any(map(_BYTE.fullmatch, pieces))

    def _constraints(self, request: Request, segments: Sequence[Ids]) -> search.Request:
        """Return the constraints on each segment: of several segments, only banned phrases."""
        if not segments or not request.is_constrained:
            return search.Request()
        if len(segments) > 1:
            request = replace(request, prefix="", required=(), terms=())
        return self._encoded(request)

    def _encoded(self, request: Request) -> search.Request:
        unknown = self._target.unknown_id
        [prefix] = self._target.encode([request.prefix])
        banned = [ids for ids in self._target.encode(request.banned) if ids]
        phrases = list(dict.fromkeys(request.required))
        required = self._target.encode(phrases)
        for phrase, ids in zip(phrases, required, strict=True):
            fault = ""
            if unknown in ids:
                fault = "has characters that are not in the vocabulary of the model; remove it"
            elif any(occurs(one, ids) for one in banned):
                fault = "contains a banned phrase; remove one of them"
            if fault:
                raise UserError(f'required phrase "{phrase}" {fault}')
        alternatives = [[ids] for ids in required if ids]
        encoded = search.Request(prefix, alternatives, banned, self._continuing)
        self._engine.check(encoded)
        for forms in request.terms:
            # A term that the vocabulary cannot write, or for which there is no space, is missed.
            known = [ids for ids in self._target.encode(forms) if ids and unknown not in ids]
            more = replace(encoded, required=[*encoded.required, known])
            if known and more.num_tokens < self._engine.longest_target // 2:
                encoded = more
        return encoded

    @cached_property
    def _continuing(self) -> frozenset[int]:
        pieces = enumerate(self._target.all_pieces())
        return frozenset(id_ for id_, piece in pieces if continues_word(piece))

    def _notes(
        self, request: Request, wanted: search.Request, parts: Sequence[list[Translation]]
    ) -> tuple[str, ...]:
        """Describe what was done otherwise than asked; `parts` has the translations by segment."""
        if len(parts) > 1:
            is_ignored = request.prefix or request.required or request.terms
            return (
                f"more than the model's limit of {self._segmenter.max_ids} tokens; translated in"
                f" {len(parts)} segments"
                + (", without its prefix, required phrases and terms" if is_ignored else ""),
            )
        # Terms follow the required phrases; the glossary reports theirs.
        asked = replace(wanted, required=wanted.required[: len(set(request.required))])
        if parts and (lacking := missing(parts[0][0].hypotheses[0].ids, asked)):
            phrases = ", ".join(self._target.decode([forms[0] for forms in lacking]))
            return (f"required phrases not in the translation: {phrases}",)
        return ()

    def _decoded(self, found: list[list[Hypothesis]]) -> list[list[Translation]]:
        # One call for all, because each call of the tokenizer starts its threads.
        decoded = self._target.decode([one.ids for best in found for one in best])
        # Byte pieces may decode to a newline, which would add a line to the output.
        texts = (text.replace("\n", " ") for text in decoded)
        return [
            [Translation(next(texts), one.score, hypotheses=[one]) for one in best]
            for best in found
        ]


def _joined(segments: Sequence[Translation], blank: str) -> Translation:
    texts = [one.text for one in segments]
    text = reduce(lambda first, second: f"{first}{blank}{second}".strip(), texts) if texts else ""
    return joined(segments, text)
