"""The background check sees drift, writes it down, says nothing twice, and changes nothing."""

from __future__ import annotations

from typing import Any

from instantstart.capabilities.features import views
from instantstart.capabilities.watchman import Watchman


def test_a_round_writes_down_what_has_drifted_and_since_when(features: Any) -> None:
    room, tag = features.room, features.job.tag
    assert features.on("tiered_checkpointing").status == "succeeded"
    watchman = Watchman(room)
    watchman.round()
    note = room.board.get(tag)
    assert note is not None
    assert note.drifted == {}
    features.kube.delete("ServiceAccount", "tiered-checkpointing", "default")
    features.forget()
    since = features.sandbox.last_call()
    watchman.round()
    changing = [c["operation"] for c in features.sandbox.calls(since) if not c["operation"].startswith(("Describe", "List", "Get"))]
    assert changing == []
    first = room.board.get(tag).drifted["tiered_checkpointing"]
    watchman.round()
    assert room.board.get(tag).drifted == {"tiered_checkpointing": first}
    told = views.list_features(room, tag)
    assert (told.drifted, told.drifted_since) == (("tiered_checkpointing",), {"tiered_checkpointing": first})
    assert features.repair("tiered_checkpointing").status == "succeeded"
    watchman.round()
    assert room.board.get(tag).drifted == {}
    assert features.off("tiered_checkpointing").status == "succeeded"


def test_no_cluster_costs_no_call_and_an_interval_of_zero_starts_nothing(features: Any) -> None:
    room, tag = features.room, features.job.tag
    row = room.store.clusters.get(tag)
    room.store.clusters.delete(tag)
    since = features.sandbox.last_call()
    Watchman(room).round()
    assert features.sandbox.calls(since) == []
    assert room.board.get(tag) is None
    room.store.clusters.upsert(row)
