"""The store: the past, restarts after any crash, the owner index; and a cluster that comes back as it was."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes.store import ADDED, DELETED, MODIFIED, Collection, StorageError, Store

from .conftest import start
from .objects import DEFINITIONS, MAPS, WIDGETS, config_map, widget, widget_definition

Steps = list[tuple[str, int]]
steps: st.SearchStrategy[Steps] = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30)


def write(store: Store, collection: Collection, name: str, value: int) -> None:
    """0 deletes, everything else writes."""
    obj = {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": name, "uid": f"uid-{name}"}, "value": value}
    present = collection.get(name)
    if value == 0:
        if present is not None:
            store.commit(collection, DELETED, name, obj)
    else:
        store.commit(collection, MODIFIED if present else ADDED, name, obj)


def state(collection: Collection, revision: int | None = None) -> dict[str, int]:
    return {k: e.object()["value"] for k, e in collection.scan(revision=revision)}


@given(steps, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "a", "b", "c"]))
@settings(max_examples=100)
def test_what_is_left_of_a_list_is_counted_as_it_would_be_read(script: Steps, prefix: str, start_at: str) -> None:
    store = Store()
    things = store.collection("things")
    revisions: list[int | None] = [None]
    for name, value in script:
        write(store, things, name, value)
        revisions.append(store.revision)
    for revision in revisions:
        assert things.count(prefix, start_at, revision) == len(list(things.scan(prefix, start_at, revision)))


@given(steps)
@settings(max_examples=100)
def test_every_past_state_can_be_read(script: Steps) -> None:
    store = Store()
    collection = store.collection("things")
    history = {store.revision: state(collection)}
    for name, value in script:
        write(store, collection, name, value)
        history[store.revision] = state(collection)
    assert all(state(collection, revision) == then for revision, then in history.items())


@given(steps, st.integers(0, 30), st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_a_restart_gives_the_same_store_after_a_torn_write(
    tmp_path_factory: pytest.TempPathFactory, script: Steps, cut: int, torn: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder)
    collection = store.collection("things")
    for index, (name, value) in enumerate(script):
        if index == cut:
            store.snapshot()
        write(store, collection, name, value)
    store.close()
    with (folder / "journal").open("ab") as journal:
        journal.write((b'99 ADDED things zz\t{"kind"' * 9)[:torn])
    again = Store(folder)
    back = again.collection("things")
    assert (state(back), again.revision) == (state(collection), store.revision)
    assert {k: e.raw for k, e in back.scan()} == {k: e.raw for k, e in collection.scan()}
    write(again, back, "a", 5)
    again.close()
    assert state(Store(folder).collection("things"))["a"] == 5


def test_the_owner_index_follows_references() -> None:
    store = Store()
    collection = store.collection("things")

    def owned(name: str, *owners: str) -> dict[str, Any]:
        references = [{"uid": o} for o in owners]
        return {"kind": "T", "apiVersion": "v1", "metadata": {"name": name, "uid": name, "ownerReferences": references}}

    store.commit(collection, ADDED, "x", owned("x", "o1", "o2"))
    store.commit(collection, ADDED, "y", owned("y", "o1"))
    assert store.owned_by("o1") == [("things", "x"), ("things", "y")]
    store.commit(collection, MODIFIED, "x", owned("x", "o2"))
    store.commit(collection, DELETED, "y", owned("y", "o1"))
    assert (store.owned_by("o1"), store.owned_by("o2")) == ([], [("things", "x")])
    assert (store.find_uid("x"), store.find_uid("y")) == (("things", "x"), None)


def test_a_cluster_comes_back_on_its_port_with_its_ca_and_objects(tmp_path: Path) -> None:
    first = start(tmp_path)
    with first.http() as http:
        http.post(DEFINITIONS, json=widget_definition())
        http.post(WIDGETS, json=widget(color="red"))
        kept = http.post(MAPS, json=config_map()).json()
        version = http.get(MAPS).json()["metadata"]["resourceVersion"]
        old = http.patch(f"{MAPS}/a", json={"data": {"k": "2"}}, headers={"Content-Type": "application/merge-patch+json"}).json()
    first.server.close()
    second = start(tmp_path)
    try:
        assert second.endpoint == first.endpoint
        with first.http() as http:
            assert http.get(f"{MAPS}/a").json() == old
            assert http.get(f"{WIDGETS}/w").json()["spec"] == {"color": "red", "size": 3}
            with http.stream("GET", MAPS, params={"watch": "true", "resourceVersion": version}) as events:
                assert '"MODIFIED"' in next(line for line in events.iter_lines() if line)
            assert int(http.post(MAPS, json=config_map("new")).json()["metadata"]["resourceVersion"]) > int(
                kept["metadata"]["resourceVersion"]
            )
    finally:
        second.server.close()


def test_a_deleted_cluster_leaves_nothing(tmp_path: Path) -> None:
    world = start(tmp_path)
    folder = world.server.folder(world.cluster.arn)
    assert folder.exists()
    world.server.delete_cluster(world.cluster.arn)
    world.server.close()
    assert not folder.exists()


def test_a_full_disk_refuses_the_write_and_harms_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    collection = store.collection("things")
    write(store, collection, "a", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "journal").stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(StorageError):
            write(store, collection, "b", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (state(collection), store.revision) == ({"a": 1}, 2)
    write(store, collection, "c", 3)
    store.close()
    with pytest.raises(StorageError):
        write(store, collection, "d", 4)
    assert state(Store(tmp_path).collection("things")) == {"a": 1, "c": 3}
