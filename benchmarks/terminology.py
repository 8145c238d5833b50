"""Terms by training and by constrained search: which terms are right, and what it costs.

    python -m benchmarks.terminology train experiment=own_text corpus.terminology=0.5 …
    python -m benchmarks.terminology measure RUN [RUN …]
    python -m benchmarks.terminology forms MODEL SOURCE TARGET

`train` is `nmt train`, but a fifth of the lexicon's words are never terms in training.
`measure` translates the first test set of each run. The terms are the words of these held-out ones
whose translation in the reference is known by the lexicon of the corpus, with the lemma of that
translation. A term is right by form if the translation has the word of the reference, and by lemma
if it has a word with the same lemma. The first run with terms defines the lexicon.
`forms` aligns the words of two files by IBM model 1, takes the lemma that is linked with a source
lemma most often as its term, and counts how many of the linked words that begin like the term are
forms of it by lemma, with the words of a model folder.
"""

import json
import sys
import time
import zlib
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import sacrebleu

import data_prep.prepare
from benchmarks.protection import CERTAIN, posteriors
from data_prep.cleaned_text import CleanedText
from data_prep.progress import Reporter
from data_prep.terminology import LEXICON_FILE, Terms, learn_terms
from nmt.base.files import read_lines
from nmt.base.terms import WORD, lemma
from nmt.cli.main import main as nmt
from nmt.data.corpus import PreparedCorpus
from nmt.run_folder import Run
from nmt.trained_model import load_trained_model, word_forms
from nmt.translation.glossary import Glossary
from nmt.translation.request import Request
from nmt.translation.term_files import Term
from nmt.translation.term_forms import are_forms
from nmt.translation.translator import Translator

_MIN_LINKS = 10  # of a term


def is_held_out(word: str) -> bool:
    """Return whether a source word is no term in training."""
    return zlib.crc32(word.encode()) % 5 == 0


def _learned(text: CleanedText, share: float, folder: Path, reporter: Reporter) -> Terms | None:
    terms = learn_terms(text, share, folder, reporter)
    if terms is None:
        return None
    lexicon = {word: keys for word, keys in terms.lexicon.items() if not is_held_out(word)}
    return replace(terms, lexicon=lexicon)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a test set with its terms: as in the source, lemma, as in the reference."""

    source: str
    reference: str
    terms: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Result:
    """Percentages of right terms, and BLEU of the sentences with terms."""

    by_form: float
    by_lemma: float
    bleu: float
    seconds: float


def sentences(corpus: PreparedCorpus) -> list[Sentence]:
    """Return the sentences of the first test set with their held-out terms."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for line in read_lines(corpus.folder / LEXICON_FILE):
        source, target = line.split("\t")
        if is_held_out(source):
            known[source].add(target)
    languages = corpus.source_language, corpus.target_language
    terms = Terms(1.0, languages, known)
    return [
        Sentence(
            source,
            reference,
            [
                (word[0], lemma(translation[0], languages[1]), translation[0])
                for word, translation in terms.links(source, reference)
            ],
        )
        for source, reference in zip(*corpus.read_text(corpus.test_splits[0]), strict=True)
    ]


def measure(run: Run, tested: list[Sentence]) -> dict[str, Result | float]:
    """Translate a test set in each way that a model knows."""
    corpus = run.corpus
    assert corpus is not None
    model, words = load_trained_model(run.model), word_forms(run.model)
    translator = Translator(model)
    languages = corpus.source_language, corpus.target_language

    some = [sentence for sentence in tested if sentence.terms]
    given = []
    for sentence in some:
        terms = [Term(source, (target,)) for source, target, _ in sentence.terms]
        glossary = Glossary(*languages, terms, words, is_annotated=True)
        given.append(glossary.applied(Request(sentence.source)))
    # A translator with an engine that can require terms does so, and ignores `annotated`.
    ways = {"no glossary": [Request(one.source) for one in given], "constrained": given}
    if model.config.terminology:
        both = [replace(one, source=one.annotated or one.source) for one in given]
        ways["annotated"] = [replace(one, terms=()) for one in both]
        ways["both"] = both
    found: dict[str, Result | float] = {}
    for way, requests in ways.items():
        started = time.process_time()
        texts = [best.text for best, *_ in translator.translate(requests)]
        found[way] = score(some, texts, languages[1], time.process_time() - started)
    others = [sentence for sentence in tested if not sentence.terms]
    texts = [best.text for best, *_ in translator.translate([one.source for one in others])]
    found["BLEU of sentences without terms"] = bleu(others, texts)
    return found


def score(tested: list[Sentence], texts: list[str], language: str, seconds: float) -> Result:
    """Count right terms."""
    forms = lemmas = 0
    for sentence, text in zip(tested, texts, strict=True):
        words = {word.casefold() for word in WORD.findall(text)}
        keys = {lemma(word, language).casefold() for word in WORD.findall(text)}
        forms += sum(form.casefold() in words for _, _, form in sentence.terms)
        lemmas += sum(target.casefold() in keys for _, target, _ in sentence.terms)
    total = sum(len(sentence.terms) for sentence in tested) / 100
    return Result(forms / total, lemmas / total, bleu(tested, texts), seconds)


def bleu(tested: list[Sentence], texts: list[str]) -> float:
    """Return the BLEU of translations."""
    return float(sacrebleu.corpus_bleu(texts, [[one.reference for one in tested]]).score)


def forms(model: Path, source: Path, target: Path) -> dict[str, int]:
    """Count the aligned words that begin like a term, and those that are its forms by lemma."""
    config = load_trained_model(model).config
    languages = config.source_language, config.target_language
    words = ([WORD.findall(line) for line in read_lines(path)] for path in (source, target))
    kept = [pair for pair in zip(*words, strict=True) if all(0 < len(one) < 25 for one in pair)]
    sources = [[lemma(word.lower(), languages[0]) for word in line] for line, _ in kept]
    targets = [line for _, line in kept]
    linked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for own, other, share in zip(
        sources, targets, posteriors(sources, targets, len(kept)), strict=True
    ):
        for i, j in np.argwhere(share > CERTAIN):
            linked[own[i]][other[j]] += 1
    terms: dict[str, Term] = {}
    for word, found in linked.items():
        lemmas: Counter[str] = Counter()
        for form, count in found.items():
            lemmas[lemma(form, languages[1])] += count
        [(likeliest, count)] = lemmas.most_common(1)
        if count >= _MIN_LINKS:
            terms[word] = Term(word, (likeliest,))
    glossary = Glossary(*languages, list(terms.values()), word_forms(model))
    counts = Counter(terms=len(terms))
    for word, term in terms.items():
        known = {form.casefold() for form in glossary.forms(term)}
        for form, count in linked[word].items():
            if are_forms(form, term.targets[0]):
                counts["begin like the term"] += count
                counts["forms by lemma"] += count * (form.casefold() in known)
                counts["as written"] += count * (form.casefold() == term.targets[0].casefold())
    return dict(counts)


def main() -> None:
    """Run one of the commands."""
    if sys.argv[1] == "forms":
        print(json.dumps(forms(*map(Path, sys.argv[2:]))))
        return
    if sys.argv[1] == "train":
        vars(data_prep.prepare)["learn_terms"] = _learned
        nmt()
        return
    runs = [Run(Path(name)) for name in sys.argv[2:]]
    corpora = [run.corpus for run in runs]
    corpus = next(one for one in corpora if one and (one.folder / LEXICON_FILE).exists())
    tested = sentences(corpus)
    num_terms, num_with = (sum(map(kind, (one.terms for one in tested))) for kind in (len, bool))
    print(f"{num_terms} terms in {num_with} of {len(tested)} sentences")
    for run in runs:
        for way, result in measure(run, tested).items():
            value = result if isinstance(result, float) else asdict(result)
            print(json.dumps({"run": run.full_name, "way": way, "result": value}), flush=True)


if __name__ == "__main__":
    main()
