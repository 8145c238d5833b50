import sys
from unittest.mock import Mock

import pytest
import wandb

from nmt.base.errors import UserError
from nmt.cli import dashboard as command
from nmt.tracking.dashboard import workspace


def test_the_workspace_has_the_sections_and_keys_of_a_run() -> None:
    view = workspace("me", "mine")._to_model()
    assert (view.entity, view.project) == ("me", "mine")
    sections = {each.name: each.panels for each in view.spec.section.panel_bank_config.sections}
    assert list(sections) == ["quality", "loss", "speed", "data", "translations"]
    plots = {
        (plot.config.x_axis, *plot.config.metrics)
        for panels in sections.values()
        for plot in panels
        if plot.view_type == "Run History Line Plot"
    }
    assert {("update", "valid/bleu"), ("train/target_tokens", "valid/bleu")} < plots
    kinds = [panel.view_type for panel in sections["translations"]]
    assert kinds == ["Weave", "Media Browser"]
    pictures = [f"translations/attention_{number}" for number in (1, 2, 3)]
    assert sections["translations"][1].config.media_keys == pictures
    assert "translations/sentences" in str(sections["translations"][0].config)


def test_without_a_login_the_command_describes_what_it_would_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dashboard", "project=mine"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    command.main()
    printed = capsys.readouterr().err
    assert "a workspace of project mine would have the sections" in printed
    assert "  quality: valid/bleu by update" in printed
    assert "wandb login" in printed


def test_a_login_writes_the_workspace_of_its_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dashboard", "project=mine"])
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr(wandb, "login", Mock(return_value=True))
    monkeypatch.setattr(wandb, "Api", lambda **_: Mock(default_entity="me"))
    made = Mock()
    made.return_value.save.return_value.url = "https://wandb.ai/me/mine"
    monkeypatch.setattr(command, "workspace", made)
    command.main()
    made.assert_called_once_with("me", "mine")
    assert "written: https://wandb.ai/me/mine" in capsys.readouterr().err
    made.return_value.save.side_effect = ConnectionError("no route to host")
    with pytest.raises(UserError, match="workspace is not written: no route to host"):
        command.main()
