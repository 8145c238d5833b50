"""Protected text: lost and invented spans, their places, and the speed of translation with them.

    python -m benchmarks.protection [model=FOLDER] [lines=2000] [threads=1]

Spans of all kinds are inserted into sentences of Multi30k and Tatoeba, validation and test, at
places whose translation is known: beside or around words that IBM model 1, trained on both texts,
links with certainty to one word of the reference, in both directions. A span is in its right place
if it stands beside the translations of its neighbours; a pair of tags, if it encloses those of its
words and no others. This is judged twice: with the reference as the translation, and with the
translation by the model, as far as the words of the reference are in it.
"""

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from data_prep.terminology import link_probabilities
from nmt.base.files import read_lines
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass
from nmt.evaluation.systems import find_model
from nmt.trained_model import load_trained_model
from nmt.translation.alignment import Aligner
from nmt.translation.pipeline import Pipeline
from nmt.translation.placement import insert_marks
from nmt.translation.protection import Protection
from nmt.translation.request import Request
from nmt.translation.spans import essence, protected_spans, without_spans
from nmt.translation.translator import Translator

_TEXTS = {"multi30k": ("valid", "test_2016_flickr"), "tatoeba-en-de": ("valid", "test")}
_LANGUAGES = ("en", "de")
_SINGLES = (
    *("{0}", "%s", "%(name)d", "${user}", "{{ total }}", "%1$s", "&nbsp;", "__NAME__"),
    *("https://example.com/a?b=1", "someone@example.com", "/etc/hosts.conf", "src/main.py"),
    *("`x = 1`", "5 km", "20 °C", "3.5 GB", "<br/>", '<x id="1"/>', '<ph id="2">&lt;b></ph>'),
)
_PAIRS = (
    *(("<b>", "</b>"), ('<a href="https://e.com">', "</a>"), ('<g id="1">', "</g>")),
    *(('<bpt id="1">&lt;i></bpt>', '<ept id="1">&lt;/i></ept>'), ('<pc id="1">', "</pc>")),
)
_FEWEST_WORDS, _MOST_SPANS, _MOST_ENCLOSED = 5, 3, 3
_TRAINING_PAIRS = 15_000  # of each text, for IBM model 1
CERTAIN = 0.8  # probability of a link
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Span:
    """A span and the words of the reference that belong to it, in lower case.

    Attributes:
        texts: the span, or the tags of a pair.
        before: the word that translates the one before the span; empty if it is not known.
        after: the same of the word after it; of a pair, the words inside.
        outside: of a pair, words that it must not enclose.
    """

    texts: tuple[str, ...]
    before: str = ""
    after: tuple[str, ...] = ()
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Line:
    """A source with spans, its reference, and the spans."""

    source: str
    reference: str
    spans: tuple[Span, ...]


@checked_dataclass
class Arguments:
    """See the docstring of the module; `data` has the folders of both texts."""

    model: str = ""
    data: str = "../shared/data"
    lines: int = 2_000
    threads: int = 1


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    torch.set_num_threads(arguments.threads)
    lines = make_lines(Path(arguments.data), arguments.lines)
    folder = Path(arguments.model) if arguments.model else find_model()
    model = load_trained_model(folder)
    translator, aligner = Translator(model), Aligner(model)
    protection = Protection(aligner)
    sources = [line.source for line in lines]
    plain, seconds_plain = _timed(Pipeline(translator), sources)
    found, seconds = _timed(Pipeline(translator, protection=protection), sources)
    bare, marks = zip(*map(without_spans, sources), strict=True)
    references = [line.reference for line in lines]
    in_references = [
        insert_marks(*one)
        for one in zip(bare, references, marks, aligner.weights(bare, references), strict=True)
    ]
    figures = [
        *_loss(lines, found, "protected"),
        Figure("untranslated lines", sum(map(str.__eq__, sources, found)), at_most=0),
        _places("right places in references", lines, in_references, at_least=95),
        _places("right places in translations", lines, found, at_least=95),
        Figure("speed / unprotected", seconds_plain / seconds, at_least=0.8),
        Figure("sentences per second of the processor", len(lines) / seconds),
        *(Figure(f"unprotected: {one.name}", one.value) for one in _loss(lines, plain, "")),
    ]
    title = f"{len(lines):,} lines with {sum(len(line.spans) for line in lines):,} spans"
    print_figures(title, figures)
    print(protection.counts, file=sys.stderr)
    result = {
        "run": folder.resolve().parent.name,
        "lines": len(lines),
        "threads": arguments.threads,
    }
    write_result("protection", {**result, "figures": figures_json(figures)})
    sys.exit(any(figure.status == "fail" for figure in figures))


def _timed(pipeline: Pipeline, sources: Sequence[str]) -> tuple[list[str], float]:
    """Return the translations and the seconds of the processor, on which others may work too."""
    start = time.process_time()
    found = pipeline.translate(list(map(Request, sources)))
    return [best.text for best, *_ in found], time.process_time() - start


def _loss(lines: Sequence[Line], found: Sequence[str], kind: str) -> list[Figure]:
    """Count spans that are missing or too many, and pairs that enclose nothing."""
    lost = invented = pairs = 0
    for line, text in zip(lines, found, strict=True):
        (wanted, num_pairs), (given, num_given) = essence(line.source), essence(text)
        lost += (wanted - given).total()
        invented += (given - wanted).total()
        pairs += abs(num_pairs - num_given)
    limit = 0 if kind else None
    return [
        Figure("lost spans", lost, at_most=limit),
        Figure("invented spans", invented, at_most=limit),
        Figure("empty or broken pairs", pairs, at_most=limit),
    ]


def _places(name: str, lines: Sequence[Line], found: Sequence[str], at_least: float) -> Figure:
    judged = [
        is_right
        for line, text in zip(lines, found, strict=True)
        for span in line.spans
        if (is_right := in_place(span, text)) is not None
    ]
    number = f"of {len(judged):,} spans"
    share = 100 * sum(judged) / max(1, len(judged))
    return Figure(name, share, "%", at_least=at_least, note=number)


def in_place(span: Span, text: str) -> bool | None:
    """Return whether a span is in its right place; None if no word that decides is in the text."""
    if any(text.count(one) != 1 for one in span.texts):
        return None
    counts = Counter(_words(text))
    wanted = {word for word in (span.before, *span.after) if counts[word] == 1}
    if not wanted:
        return None
    parts = [_words(part) for part in re.split("|".join(map(re.escape, span.texts)), text)]
    if len(span.texts) == 1:
        left, right = parts
        return (bool(span.before) and left[-1:] == [span.before]) or right[:1] == [*span.after]
    outside = {word for word in span.outside if counts[word] == 1}
    return wanted <= set(parts[1]) and not outside & set(parts[1])


def _words(text: str) -> list[str]:
    """Return the words of a text outside of its spans, in lower case."""
    for one in protected_spans(text):
        text = text.replace(one, " ", 1)
    return [word.lower() for word in _WORD.findall(text)]


def make_lines(data: Path, number: int) -> list[Line]:
    """Insert spans into sentences of both texts, half of the lines from each."""
    chance = random.Random(1)
    texts: list[tuple[str, str]] = []
    training: list[tuple[str, str]] = []
    for folder, splits in _TEXTS.items():
        pairs = [pair for split in splits for pair in _pairs(data / folder, split)]
        fit = [
            (source, reference)
            for source, reference in pairs
            if len(source.split()) >= _FEWEST_WORDS and not protected_spans(source + reference)
        ]
        texts += chance.sample(fit, int(1.1 * number) // len(_TEXTS))
        training += list(_pairs(data / folder, "train"))[:_TRAINING_PAIRS]
    links = certain_links([*texts, *training], len(texts))
    made = (_with_spans(*pair, found, chance) for pair, found in zip(texts, links, strict=True))
    with_spans = [line for line in made if line.spans]
    middle, half = len(with_spans) // 2, number // 2
    return [*with_spans[:middle][:half], *with_spans[middle:][:half]]


def _pairs(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    texts = (read_lines(folder / f"{split}.{language}") for language in _LANGUAGES)
    return zip(*texts, strict=True)


def certain_links(pairs: Sequence[tuple[str, str]], number: int) -> list[dict[int, str]]:
    """Return the certain links of the first pairs: index of a source word → word of the reference.

    Words that occur twice in the reference are left out.
    """
    sides = [[[_plain(word) for word in pair[i].split()] for pair in pairs] for i in (0, 1)]
    found: list[dict[int, str]] = []
    shares = posteriors(sides[0], sides[1], number)
    for words, reference, posterior in zip(*sides, shares, strict=False):
        counts = Counter(reference)
        links = np.argwhere(posterior > CERTAIN)
        known = ((int(i), reference[j]) for i, j in links if words[i] and reference[j])
        found.append({i: word for i, word in known if counts[word] == 1})
    return found


def _plain(word: str) -> str:
    return " ".join(_WORD.findall(word)).lower()


def posteriors(
    sources: Sequence[list[str]], targets: Sequence[list[str]], number: int
) -> list[NDArray[np.float64]]:
    """Return the probabilities of the links of the first pairs, (source words, target words).

    They are those of IBM model 1, with both directions trained to agree (Liang et al. 2006).
    """
    source_ids, target_ids = (_ids(side) for side in (sources, targets))
    num_words = max(map(max, target_ids)) + 1
    shape = [(len(s), len(t)) for s, t in zip(source_ids, target_ids, strict=True)]
    codes = np.concatenate(
        [
            np.add.outer(np.array(s) * num_words, np.array(t)).ravel()
            for s, t in zip(source_ids, target_ids, strict=True)
        ]
    )
    _, posterior, _ = link_probabilities(codes, num_words, *_tokens(shape))
    sizes = shape[:number]
    parts = np.split(posterior, np.cumsum([s * t for s, t in sizes]))
    return [part.reshape(size) for part, size in zip(parts, sizes, strict=False)]


def _ids(lines: Sequence[list[str]]) -> list[list[int]]:
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(word, len(numbers)) for word in line] for line in lines]


def _tokens(shape: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the token of the source and of the target of each link."""
    sources, targets = [], []
    first_source = first_target = 0
    for num_sources, num_targets in shape:
        sources.append(np.repeat(first_source + np.arange(num_sources), num_targets))
        targets.append(np.tile(first_target + np.arange(num_targets), num_sources))
        first_source += num_sources
        first_target += num_targets
    return np.concatenate(sources), np.concatenate(targets)


def _with_spans(source: str, reference: str, links: dict[int, str], chance: random.Random) -> Line:
    """Insert one to three spans at words with certain links, no two of them at the same word."""
    words, translated = source.split(), list(map(_plain, reference.split()))
    before: dict[int, str] = {}
    after: dict[int, str] = {}
    spans: list[Span] = []
    free = [index for index in links if _plain(words[index])]
    chance.shuffle(free)
    singles, pairs = list(_SINGLES), list(_PAIRS)
    chance.shuffle(singles)
    chance.shuffle(pairs)
    most = chance.randint(1, _MOST_SPANS)
    used: set[int] = set()
    for index in free:
        if len(spans) == most or used & {index - 1, index, index + 1}:
            continue
        if chance.random() < 1 / 2:
            opening, closing = pairs.pop()
            end = index
            while end - index < _MOST_ENCLOSED - 1 and not used & {end + 1, end + 2}:
                more = [links.get(i, "") for i in range(index, end + 2)]
                if not _is_run(more, translated) or chance.random() < 1 / 2:
                    break
                end += 1
            inside = tuple(links[i] for i in range(index, end + 1))
            outside = frozenset(links.values()) - set(inside)
            before[index], after[end] = opening, closing
            spans.append(Span((opening, closing), after=inside, outside=outside))
            used |= set(range(index, end + 1))
        else:
            text = singles.pop()
            before[index] = f"{text} "
            known = links.get(index - 1, "")
            spans.append(Span((text,), known, (links[index],)))
            used.add(index)
    parts = (before.get(i, "") + _tagged(word, after.get(i, "")) for i, word in enumerate(words))
    return Line(" ".join(parts), reference, tuple(spans))


def _is_run(words: Sequence[str], reference: Sequence[str]) -> bool:
    """Return whether words stand together in the reference, in any order."""
    if not all(words):
        return False
    places = sorted(map(reference.index, words))
    return places[-1] - places[0] == len(words) - 1


def _tagged(word: str, closing: str) -> str:
    """Return a word with a closing tag before its punctuation."""
    end = len(word.rstrip(".,;:!?\"'”’)"))
    return word[:end] + closing + word[end:]


if __name__ == "__main__":
    run_command(main)
