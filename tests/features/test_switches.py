"""Every switch on, off, and on again; the world compared with the declared chain."""

from __future__ import annotations

from typing import Any

import pytest

SIMPLE = ("cert_manager", "metrics_server", "fsx_csi", "training_operator", "task_governance", "kuberay", "keda", "observability")


@pytest.mark.parametrize("feature", SIMPLE)
def test_on_is_on_off_is_off_and_on_again(features: Any, feature: str) -> None:
    for _ in range(2):
        made = features.on(feature)
        assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
        view = features.read()[feature]
        assert (view.state, view.installed_by) == ("on", "InstantStart"), view
        assert [link for link in view.identity if link.status != "ok"] == []
        gone = features.off(feature)
        assert gone.status == "succeeded", (gone.stopped_at, gone.problem, gone.said[-5:])
        assert features.read()[feature].state == "off"
