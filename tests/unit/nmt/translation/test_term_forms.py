from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.translation.glossary import Glossary, open_glossary
from nmt.translation.request import Links
from nmt.translation.term_files import Term
from nmt.translation.term_forms import aligned_forms, write_forms
from tests.support import tiny_trained_model


class _Diagonal:
    """Aligns the words of two sentences in their order."""

    def links(self, sources: Sequence[str], targets: Sequence[str]) -> list[Links | None]:
        return [
            [(i, i) for i in range(len(source.split()))] if "?" not in source else None
            for source in sources
        ]


@pytest.mark.parametrize(
    ("term", "pairs", "forms"),
    [
        (
            Term("house", ("Haus",)),
            [
                ("The houses.", "Die Häuser."),
                ('My "house" fell', 'Meines "Hauses" fiel'),
                ("A house", "Ein Hausboot"),  # a compound
                ("A house", "Haus ein"),  # not aligned
                ("A hut", "Ein Haus"),
                ("House?", "Hausung?"),  # too long for the model
                ("The houses", "Die Häuser"),
            ],
            ["Häuser", "Hauses"],
        ),
        (
            Term("red house", ("rotes Haus",)),
            [("Red houses are here", "Roten Häusern sind hier"), ("red house", "rot Haus")],
            ["roten Häusern", "rot Haus"],
        ),
        (Term("log in", ("anmelden",)), [("Log in", "Melde an")], []),
        (Term("Go", ("Go",), is_exact=True), [("Go", "Go")], []),
    ],
)
def test_forms_are_aligned_and_similar(
    term: Term, pairs: list[tuple[str, str]], forms: list[str]
) -> None:
    found = aligned_forms(Glossary("en", "de", [term]), _Diagonal(), pairs)  # type: ignore[arg-type]
    assert found == ({term.targets[0]: forms} if forms else {})
    assert aligned_forms(Glossary("en", "de", [term]), _Diagonal(), []) == {}  # type: ignore[arg-type]


def test_a_glossary_has_the_forms_of_the_model_folder(tmp_path: Path, tokenizer_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path)
    glossary_file = tmp_path / "terms.tsv"
    glossary_file.write_text("uta\tTalo\n")
    [term] = open_glossary(glossary_file, [model], tmp_path).terms
    assert open_glossary(glossary_file, [model], tmp_path).forms(term) == ["Talo"]
    write_forms(tmp_path, {"Talo": ["Talossa", "Taloon"]})
    assert open_glossary(glossary_file, [model], tmp_path).forms(term) == [
        "Talo",
        "Talossa",
        "Taloon",
    ]
