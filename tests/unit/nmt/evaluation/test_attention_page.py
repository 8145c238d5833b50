"""The page of attention weights holds the weights of the model, and loads nothing."""

import json
import math
import re
from typing import Any

import pytest
import torch

from nmt.evaluation.attention_page import attention_page, summarise_head
from nmt.trained_model import TrainedModel
from nmt.translation.attention import sentence_attention

SOURCE, TRANSLATION = "Kalo mine", "Mine </script> kalo"


@pytest.fixture
def page(trained_model: TrainedModel) -> str:
    attention = sentence_attention(trained_model, SOURCE, TRANSLATION)
    return attention_page("en-de", [(SOURCE, TRANSLATION, attention)])


def data_of(page: str) -> Any:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def test_the_page_has_the_weights_of_every_layer_and_head(
    page: str, trained_model: TrainedModel
) -> None:
    [found] = data_of(page)
    assert (found["source"], found["translation"]) == (SOURCE, TRANSLATION)
    source = [*trained_model.source_tokenizer.pieces(encoded(trained_model, SOURCE)), "</s>"]
    target = [*trained_model.target_tokenizer.pieces(encoded(trained_model, TRANSLATION)), "</s>"]
    expected = {
        "encoder": (source, source),
        "decoder": (target, ["<s>", *target[:-1]]),
        "cross": (target, source),
    }
    for kind, (rows, columns) in expected.items():
        one = found["kinds"][kind]
        assert (one["rows"], one["columns"]) == (rows, columns)
        assert [len(layer) for layer in one["layers"]] == [2, 2]
        for head in (head for layer in one["layers"] for head in layer):
            weights = torch.tensor(head["weights"])
            assert weights.shape == (len(rows), len(columns))
            assert weights.sum(dim=1).tolist() == pytest.approx([1.0] * len(rows), abs=0.01)
            if kind == "decoder":  # nothing is attended to that is not yet produced
                assert weights.triu(1).abs().max() == 0
    last = sentence_attention(trained_model, SOURCE, TRANSLATION).kinds["cross"][-1]
    shown = [head["weights"] for head in found["kinds"]["cross"]["layers"][-1]]
    torch.testing.assert_close(torch.tensor(shown), last, atol=1e-3, rtol=0)


def encoded(model: TrainedModel, text: str) -> list[int]:
    return model.source_tokenizer.encode([text])[0]


def test_the_page_loads_nothing_and_text_ends_no_script(page: str) -> None:
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.search(r'(src|href)\s*=\s*"|@import|url\(|fetch\(|innerHTML', page)


def test_a_head_is_summarised_by_entropy_and_distance() -> None:
    even = torch.full((4, 4), 0.25)
    assert summarise_head(even, is_self_attention=True).entropy == pytest.approx(2.0)
    assert summarise_head(even, is_self_attention=True).distance == pytest.approx(1.25)
    diagonal = summarise_head(torch.eye(3), is_self_attention=True)
    assert (diagonal.entropy, diagonal.distance) == (0.0, 0.0)
    previous = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert summarise_head(previous, is_self_attention=True).distance == 0.5
    assert summarise_head(previous, is_self_attention=False).distance is None
    assert not math.isnan(summarise_head(previous, is_self_attention=True).entropy)
