import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.model.decoder_state import DecoderState
from nmt.model.memory import Shape
from nmt.model.transformer import Transformer
from nmt.training.rehearsal import Rehearsal
from tests.support import tiny_config


def test_search_holds_all_batches_at_once_and_weights_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Transformer.start
    rehearsal = Rehearsal(tiny_config(tmp_path), (30, 30), torch.device("cpu"))
    states: list[weakref.ref[DecoderState]] = []
    held: list[list[int]] = []

    def started(self: Transformer, *arguments: Any) -> DecoderState:
        assert self is not rehearsal.transformer
        states.append(weakref.ref(state := start(self, *arguments)))
        return state

    def look() -> None:
        live = [state for ref in states if (state := ref()) is not None]
        held.append([int(state.slots.holds.sum(dim=1).max()) for state in live])

    monkeypatch.setattr(Transformer, "start", started)
    monkeypatch.setattr(rehearsal, "wait", look)
    rehearsal.search([Shape(4, 5, 40), Shape(2, 4, 33)])
    assert held == [[40, 33]]
    assert [ref() for ref in states] == [None, None]
