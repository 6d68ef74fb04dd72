"""For any graph of resources and any failure: order is kept, and what is left is what the stack's status says."""

from __future__ import annotations

import ipaddress
import itertools
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instantstart_sandbox.services.cloudformation.graph import order
from instantstart_sandbox.services.cloudformation.intrinsics import Made, Scope

from .conftest import Bench

Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to eight resources, each after some of the earlier ones."""
    names = [f"R{i}" for i in range(draw(st.integers(1, 8)))]
    return {name: draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else [] for i, name in enumerate(names)}


def template(graph: Graph) -> str:
    def one(after: list[str]) -> dict[str, Any]:
        value = {"Fn::Join": ["-", [*({"Ref": a} for a in after), "x"]]}
        return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}}

    return json.dumps({"Resources": {name: one(after) for name, after in graph.items()}})


@given(graphs())
def test_every_resource_comes_after_what_it_needs(graph: Graph) -> None:
    needs = order(json.loads(template(graph))["Resources"], set(graph))
    assert {name: sorted(after) for name, after in graph.items()} == needs


@given(graphs(), st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_stack_is_whole_or_not_there(graph: Graph, data: st.DataObject) -> None:
    broken = data.draw(st.sampled_from([None, *graph]))
    bench = Bench()
    if broken:
        bench.world.faults.add(
            match=f"cloudformation:.*/{broken}/Create", code="Boom", when=data.draw(st.sampled_from(["before", "after"]))
        )
    stack_id = bench.cfn.create_stack(StackName="g", TemplateBody=template(graph))["StackId"]
    assert bench.run("g") == ("ROLLBACK_COMPLETE" if broken else "CREATE_COMPLETE")
    assert len(bench.leftovers().get("parameter", [])) == (0 if broken else len(graph))
    began = [e["LogicalResourceId"] for e in bench.events("g") if e["ResourceStatus"] == "CREATE_IN_PROGRESS"]
    assert all(began.index(a) < began.index(name) for name, after in graph.items() if name in began for a in after)
    bench.cfn.delete_stack(StackName="g")
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}
    gone = [e["LogicalResourceId"] for e in bench.events(stack_id) if e["ResourceStatus"] == "DELETE_COMPLETE"]
    assert all(gone.index(name) < gone.index(a) for name, after in graph.items() if name in gone for a in after)
    bench.world.reset()


@given(st.integers(16, 24), st.integers(1, 64), st.integers(4, 8))
def test_the_blocks_of_cidr_lie_inside_and_never_overlap(prefix: int, count: int, bits: int) -> None:
    block = ipaddress.ip_network(f"10.0.0.0/{prefix}")
    if 2 ** (32 - bits - prefix) < count:
        return
    scope = Scope({}, {}, {}, {"Vpc": Made("v", {})}, lambda region: [], lambda name: "")
    nets = [ipaddress.ip_network(n) for n in scope.resolve({"Fn::Cidr": [str(block), count, bits]})]
    assert len(nets) == count
    assert all(net.subnet_of(block) and net.prefixlen == 32 - bits for net in nets)  # type: ignore[arg-type]
    assert all(a.broadcast_address < b.network_address for a, b in itertools.pairwise(nets))  # type: ignore[operator]
