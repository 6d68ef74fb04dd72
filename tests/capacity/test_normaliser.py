"""The normaliser of instance groups against botocore's own service model: nothing is lost, nothing is invented, twice is once."""

from __future__ import annotations

import copy
from typing import Any

import botocore.session
import pytest
from botocore.model import Shape
from botocore.validate import ParamValidator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from instantstart.base import problems
from instantstart.capabilities.capacity.groups import specs, stages
from instantstart.ensure.capacity import groups

MODEL = botocore.session.get_session().get_service_model("sagemaker")
TOLD = MODEL.shape_for("ClusterInstanceGroupDetails")
ASKED = MODEL.shape_for("ClusterInstanceGroupSpecification")
_PLAIN: dict[str, SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "timestamp": st.datetimes(),
}
_DECISION = "ensure/capacity/groups.py must say what this field is: carried forward, renamed, or only told"


def from_shape(shape: Shape) -> SearchStrategy[Any]:
    """Any value that the service model allows for a shape; every optional member may be there or not."""
    kind = shape.type_name
    if kind == "structure" and getattr(shape, "is_tagged_union", False):
        return st.one_of([st.fixed_dictionaries({n: from_shape(m)}) for n, m in shape.members.items()])
    if kind == "structure":
        required = {n: from_shape(m) for n, m in shape.members.items() if n in shape.required_members}
        return st.fixed_dictionaries(required, optional={n: from_shape(m) for n, m in shape.members.items() if n not in required})
    if kind == "list":
        return st.lists(from_shape(shape.member), min_size=1, max_size=2)
    if kind == "map":
        return st.dictionaries(st.sampled_from(["team", "a/b"]), from_shape(shape.value), min_size=1)
    if kind == "string":
        least = max(shape.metadata.get("min", 0), 1)
        return st.sampled_from(shape.enum) if shape.enum else st.text("abc", min_size=least, max_size=least + 3)
    if kind in ("integer", "long"):
        least = shape.metadata.get("min", 0)
        return st.integers(least, min(least + 2, shape.metadata.get("max", least + 2)))
    return _PLAIN[kind]


TELLS, ASKS = from_shape(TOLD), from_shape(ASKED)


def as_told(asked: dict[str, Any]) -> dict[str, Any]:
    """A request as DescribeCluster tells it back: the inverse of the normaliser, written down apart from it."""
    told = copy.deepcopy(asked)
    for name, shown in (("InstanceCount", "TargetCount"), ("MinInstanceCount", "MinCount")):
        if name in told:
            told[shown] = told.pop(name)
    if "InstanceRequirements" in told:
        types = told["InstanceRequirements"]["InstanceTypes"]
        told["InstanceRequirements"] = {"CurrentInstanceTypes": types[:1], "DesiredInstanceTypes": types}
    if "KubernetesConfig" in told:
        told["KubernetesConfig"] = {f"Desired{k}": v for k, v in told["KubernetesConfig"].items()} | {"CurrentLabels": {"old": "1"}}
    if "PatchSchedule" in told.get("AutoPatchConfig", {}):
        told["AutoPatchConfig"]["DesiredPatchSchedule"] = told["AutoPatchConfig"].pop("PatchSchedule")
    for name in ("ImageId", "ImageReleaseVersion"):
        if name in told:
            told[f"Desired{name}"] = told.pop(name)
    return told | {"CurrentCount": 7, "Status": "InService", "ActiveOperations": {"Scaling": 1}, "CurrentImageReleaseVersion": "9.9.9"}


def pruned(value: Any) -> Any:
    """Without what is empty: SageMaker refuses empty texts, and an empty list or map asks for nothing."""
    if isinstance(value, dict):
        return {k: p for k, v in value.items() if (p := pruned(v)) not in ({}, []) or k in ("Spot", "OnDemand")}
    return [pruned(v) for v in value] if isinstance(value, list) else value


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A group as UpdateCluster takes it, with any optional setting."""
    asked = pruned(draw(ASKS))
    asked.setdefault("InstanceCount", 1)
    if "InstanceRequirements" in asked:
        asked.pop("InstanceType", None)  # one or the other: a flexible group has no type of its own
    return dict(asked)


SLOW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(requests())
@SLOW
def test_what_was_asked_comes_back_as_it_was(asked: dict[str, Any]) -> None:
    assert groups.to_request(as_told(asked)) == asked


@given(requests())
@SLOW
def test_normalising_twice_is_once(asked: dict[str, Any]) -> None:
    once = groups.to_request(as_told(asked))
    assert groups.equal(groups.to_request(as_told(once)), once)


@given(requests(), st.integers(0, 6758))
@SLOW
def test_scaling_changes_one_number_and_nothing_else(asked: dict[str, Any], count: int) -> None:
    before = groups.to_request(as_told(asked))
    after = before | {"InstanceCount": count}
    assert set(groups.changed_fields(before, after)) <= {"InstanceCount"}
    assert {k: v for k, v in after.items() if k != "InstanceCount"} == {k: v for k, v in asked.items() if k != "InstanceCount"}


@given(TELLS)
@SLOW
def test_what_is_told_becomes_a_request_that_botocore_takes(told: dict[str, Any]) -> None:
    told = {"InstanceGroupName": "a", "ExecutionRole": "r" * 30, "TargetCount": 3, **told}
    told.get("AutoPatchConfig", {}).setdefault("PatchingStrategy", "WhenIdle")
    if told.get("AutoPatchConfig") == {}:
        told.pop("AutoPatchConfig")
    asked = groups.to_request(told)
    assert ParamValidator().validate(asked, ASKED).generate_report() == ""
    assert groups.unknown_fields(told) == ()


@given(requests())
@SLOW
def test_an_update_of_nothing_changes_nothing(asked: dict[str, Any]) -> None:
    assert groups.equal(stages.patched(asked, specs.UpdateInstanceGroup.model_construct()), asked)


@given(requests(), st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")))
@SLOW
def test_an_update_of_labels_changes_labels_only(asked: dict[str, Any], labels: dict[str, str]) -> None:
    after = stages.patched(asked, specs.UpdateInstanceGroup(labels=labels))
    assert set(groups.changed_fields(asked, after)) <= {"KubernetesConfig"}
    assert after.get("KubernetesConfig", {}).get("Labels", {}) == labels
    assert after.get("KubernetesConfig", {}).get("Taints") == asked.get("KubernetesConfig", {}).get("Taints")


def fits(told: Shape, asked: Shape) -> bool:
    """Whether every value of one shape is a value of the other, whatever the two are called."""
    if told.name == asked.name:
        return True
    both = told.type_name == asked.type_name == "structure" and set(told.members) <= set(asked.members)
    return both and all(fits(told.members[n], asked.members[n]) for n in told.members)


def test_every_field_of_the_service_model_is_decided_about() -> None:
    told, asked = set(TOLD.members), set(ASKED.members)
    assert told == {*groups.CARRIED, *groups.RENAMED, *groups.READ_ONLY}, _DECISION
    assert asked == {*groups.CARRIED, *groups.RENAMED.values()}, _DECISION
    assert set(groups.CARRIED) <= told & asked
    assert not set(groups.READ_ONLY) & asked, "what can be asked is not only told"
    for name, known in groups.INSIDE.items():
        assert set(TOLD.members[name].members) == set(known), f"{name}: {_DECISION}"
        assert set(ASKED.members[name].members) == {v for v in known.values() if v}, f"{name}: {_DECISION}"
    for name in groups.CARRIED:
        assert fits(TOLD.members[name], ASKED.members[name]), f"{name} has two shapes: it cannot be carried as it is"


@pytest.mark.parametrize("told", [{"QuantumConfig": {"Q": 1}}, {"KubernetesConfig": {"DesiredLabels": {"a": "b"}, "DesiredZoo": {}}}])
def test_a_field_from_the_future_stops_the_change_and_is_named(told: dict[str, Any]) -> None:
    group = {"InstanceGroupName": "a", "TargetCount": 1, **told}
    with pytest.raises(problems.Blocked, match=r"QuantumConfig|DesiredZoo"):
        groups.check_known(group)


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({"CurrentImageId": "default"}, {}),
        ({"CurrentImageId": "ami-0123abcd"}, {"ImageId": "ami-0123abcd"}),
        ({"DesiredImageId": "default", "CurrentImageId": "ami-0123abcd"}, {"ImageId": "default"}),
        ({"CapacityRequirements": {"Spot": {}}}, {"CapacityRequirements": {"Spot": {}}}),
        ({"CapacityRequirements": {}, "TrainingPlanArn": "", "OnStartDeepHealthChecks": []}, {}),
        ({"KubernetesConfig": {"CurrentLabels": {"a": "b"}}}, {"KubernetesConfig": {"Labels": {"a": "b"}}}),
        ({"KubernetesConfig": {"CurrentLabels": {"a": "b"}, "DesiredTaints": []}}, {}),
        ({"MinCount": 0}, {"MinInstanceCount": 0}),
    ],
)
def test_what_stands_in_for_what_is_not_told(told: dict[str, Any], asked: dict[str, Any]) -> None:
    assert groups.to_request({"InstanceGroupName": "a", **told}) == {"InstanceGroupName": "a", **asked}


def test_order_says_nothing_in_sets_and_something_in_preferences() -> None:
    taints = [{"Key": "a", "Effect": "NoSchedule"}, {"Key": "b", "Effect": "NoSchedule"}]
    assert groups.equal({"KubernetesConfig": {"Taints": taints}}, {"KubernetesConfig": {"Taints": taints[::-1]}})
    types = {"InstanceRequirements": {"InstanceTypes": ["x", "y"]}}
    assert not groups.equal(types, {"InstanceRequirements": {"InstanceTypes": ["y", "x"]}})
