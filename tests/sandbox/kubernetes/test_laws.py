"""Laws that hold after any sequence of writes by two managers: watches add up to the list, ownership is of what exists."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes import fields, kinds, ownership
from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.deletion import DeleteOptions, Deletion
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.pipeline import PATCHES, Pipeline
from instantstart_sandbox.kubernetes.store import Change, Store

Object = dict[str, Any]

containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["c", "d"]), "image": st.sampled_from(["i:1", "i:2"])},
        optional={
            "env": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from("AB"), "value": st.sampled_from("12")}),
                max_size=2,
                unique_by=lambda e: e["name"],
            ),
            "command": st.lists(st.sampled_from(["sh", "true"]), max_size=2),
        },
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda c: c["name"],
)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2),
        "finalizers": st.lists(st.sampled_from(["e.com/a", "e.com/b"]), max_size=2, unique=True),
    },
)
operations = st.tuples(
    st.sampled_from(["create", "update", "apply", "apply", "force", "merge", "strategic", "status", "scale", "delete"]),
    st.sampled_from(["one", "two", "three"]),
    st.sampled_from(["left", "right"]),
    metadata,
    st.one_of(st.none(), st.integers(0, 3)),
    containers,
)
scripts = st.lists(operations, min_size=1, max_size=14)


def deployment(name: str, about: Object, replicas: int | None, listed: list[Object]) -> Object:
    labels = {"app": name}
    spec: Object = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": listed}}}
    if replicas is not None:
        spec["replicas"] = replicas
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **about}, "spec": spec}
    return copy.deepcopy(body)


class Bench:
    """A pipeline without a server, and a watcher that has been there from the beginning."""

    def __init__(self) -> None:
        self.seconds = 0
        self.pipeline = Pipeline(Store(), kinds.built_in(), self._now)
        self.deletion = Deletion(self.pipeline)
        self.resource = self.pipeline.catalog.find("deployments.apps")
        self.collection = self.pipeline.collection(self.resource)
        self.watched: dict[str, bytes] = {}
        self.revisions: list[int] = []
        self.collection.listeners.add(self._watch)
        self.pipeline.create(self.pipeline.catalog.find("namespaces"), None, {"metadata": {"name": "default"}}, Options())

    def _now(self) -> str:
        self.seconds += 1
        return f"2026-11-30T{self.seconds // 3600:02}:{self.seconds // 60 % 60:02}:{self.seconds % 60:02}Z"

    def _watch(self, change: Change) -> None:
        self.revisions.append(change.revision)
        if change.type == "DELETED":
            self.watched.pop(change.key)
        else:
            assert (change.key in self.watched) == (change.type == "MODIFIED")
            self.watched[change.key] = change.entry.raw

    def run(self, operation: tuple[str, str, str, Object, int | None, list[Object]]) -> None:
        verb, name, manager, about, replicas, listed = operation
        body, options = deployment(name, about, replicas, listed), Options(manager=manager)
        try:
            self._act(verb, name, body, options)
        except ApiError as refusal:
            if refusal.code not in (404, 409, 422):
                raise

    def _act(self, verb: str, name: str, body: Object, options: Options) -> None:
        where = (self.resource, "default", name)
        if verb == "create":
            self.pipeline.create(self.resource, "default", body, options)
        elif verb == "update":
            self.pipeline.update(*where, body, options)
        elif verb in ("apply", "force"):
            self.pipeline.apply(*where, body, Options(manager=options.manager, force=verb == "force"))
        elif verb in ("merge", "strategic"):
            self.pipeline.patch(*where, (PATCHES[verb], body), options)
        elif verb == "status":
            request = (PATCHES["merge"], {"status": {"replicas": body["spec"].get("replicas", 0)}})
            self.pipeline.patch(*where, request, Options(manager=options.manager, subresource="status"))
        elif verb == "scale":
            self.pipeline.patch(
                *where, (PATCHES["merge"], {"spec": {"replicas": 2}}), Options(manager=options.manager, subresource="scale")
            )
        else:
            self.deletion.delete(*where, DeleteOptions())

    def objects(self) -> list[Object]:
        return [e.object() for _, e in self.collection.scan()]


def exists(obj: Any, tree: fields.FieldSet, bench: Bench) -> bool:
    """Whether every member of a set is there in the object."""
    whole = fields.union(fields.applied_set(obj, bench.resource.node), fields.compare({}, obj, bench.resource.node).added)
    return not fields.difference(tree, whole)


@given(scripts)
@settings(max_examples=150, deadline=None)
def test_a_watch_from_the_beginning_adds_up_to_the_list(script: list[Any]) -> None:
    bench = Bench()
    for operation in script:
        bench.run(operation)
    assert bench.watched == {k: e.raw for k, e in bench.collection.scan()}
    assert bench.revisions == sorted(set(bench.revisions))


@given(scripts)
@settings(max_examples=150, deadline=None)
def test_managers_own_only_what_is_there(script: list[Any]) -> None:
    bench = Bench()
    for operation in script:
        bench.run(operation)
        for obj in bench.objects():
            bare = {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}
            # an applier owns the empty lists and maps of its configuration, too, which nothing stores
            for manager in (m for m in ownership.decode(obj) if m.operation == "Update"):
                assert exists(bare, manager.fields, bench), (manager, obj)


@given(scripts, operations)
@settings(max_examples=150, deadline=None)
def test_a_forced_apply_is_done_and_twice_is_once(script: list[Any], last: Any) -> None:
    bench = Bench()
    for operation in script:
        bench.run(operation)
    _, name, manager, about, replicas, listed = last
    options, body = Options(manager=manager, force=True), deployment(name, about, replicas, listed)
    try:
        once, _ = bench.pipeline.apply(bench.resource, "default", name, copy.deepcopy(body), options)
    except ApiError as refusal:
        if refusal.code != 422:  # a new finalizer on an object under deletion
            raise
        return
    if bench.collection.get(f"default/{name}") is None:
        return  # it took the last finalizer of an object under deletion
    again, created = bench.pipeline.apply(bench.resource, "default", name, copy.deepcopy(body), options)
    assert (again, created) == (once, False)
    assert once["spec"]["template"]["spec"]["containers"] is not None
    shown = {c["name"]: c["image"] for c in once["spec"]["template"]["spec"]["containers"]}
    assert all(shown[c["name"]] == c["image"] for c in listed)
    unforced, _ = bench.pipeline.apply(bench.resource, "default", name, copy.deepcopy(body), Options(manager=manager))
    assert unforced == once


@given(scripts)
@settings(max_examples=100, deadline=None)
def test_putting_back_what_was_read_changes_nothing(script: list[Any]) -> None:
    bench = Bench()
    for operation in script:
        bench.run(operation)
    for obj in bench.objects():
        before = bench.pipeline.store.revision
        bench.pipeline.update(bench.resource, "default", obj["metadata"]["name"], copy.deepcopy(obj), Options(manager="right"))
        assert bench.pipeline.store.revision == before
