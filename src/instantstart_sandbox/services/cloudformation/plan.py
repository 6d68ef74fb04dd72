"""What a stack's template asks for under its parameters: the live resources, their order, and the scope to resolve them in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.arns import dns_suffix
from instantstart_sandbox.services.cloudformation import graph, parameters
from instantstart_sandbox.services.cloudformation.intrinsics import Made, Scope
from instantstart_sandbox.services.cloudformation.records import Stack
from instantstart_sandbox.services.cloudformation.template import Template, load
from instantstart_sandbox.services.cloudformation.wording import invalid

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


@dataclass
class Plan:
    """``resources`` are the live ones with every Fn::If decided; ``needs`` is what each must wait for."""

    template: Template
    resources: dict[str, dict[str, Any]]
    needs: dict[str, list[str]]
    outputs: dict[str, dict[str, Any]]
    scope: Scope

    def properties(self, logical_id: str) -> Any:
        """The resolved properties of a resource; AwsError when a function fails."""
        return self.scope.resolve(self.resources[logical_id].get("Properties") or {})


def exports(stacks: dict[str, Stack], region: str) -> dict[str, tuple[Stack, str]]:
    """Every exported name of a region: the stack that exports it, and its value."""
    return {
        output["export"]: (stack, output["value"])
        for stack in stacks.values()
        if stack["region"] == region and stack["status"] != "DELETE_COMPLETE"
        for output in stack["outputs"]
        if output["export"]
    }


def make_plan(world: World, stacks: dict[str, Stack], stack: Stack) -> Plan:
    """The plan of a stack as it stands; AwsError ``ValidationError`` for a template that cannot be ordered."""
    template = load(stack["template"])
    scope = _scope(world, stacks, stack, template)
    live: dict[str, dict[str, Any]] = {}
    for name, resource in template["Resources"].items():
        if "Condition" not in resource or scope.truth(resource["Condition"]):
            live[name] = {**resource, "Properties": graph.prune(resource.get("Properties") or {}, scope.truth)}
    outputs = {
        name: graph.prune(output, scope.truth)
        for name, output in (template.get("Outputs") or {}).items()
        if "Condition" not in output or scope.truth(output["Condition"])
    }
    needs = graph.order(live, set(template["Resources"]))
    return Plan(template, live, needs, outputs, scope)


def _scope(world: World, stacks: dict[str, Stack], stack: Stack, template: Template) -> Scope:
    region = stack["region"]
    partition = world.partition(region)
    declared = template.get("Parameters") or {}
    pseudo = {
        "AWS::AccountId": stack["account"],
        "AWS::NotificationARNs": stack["notification_arns"],
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackId": stack["id"],
        "AWS::StackName": stack["name"],
        "AWS::URLSuffix": dns_suffix(partition),
    }
    return Scope(
        template=template,
        parameters={name: parameters.as_reference(declared[name]["Type"], value) for name, value in stack["resolved"].items()},
        pseudo=pseudo,
        made={name: Made(r["ref"], r["attributes"]) for name, r in stack["resources"].items() if r["ref"]},
        zones=lambda name: sorted(lookups.zones(world, name)),
        export=_importer(stacks, stack),
    )


def _importer(stacks: dict[str, Stack], stack: Stack) -> Callable[[str], str]:
    def value(name: str) -> str:
        found = exports(stacks, stack["region"]).get(name)
        if found is None:
            raise invalid(f"No export named {name} found.")
        if name not in stack["imports"]:
            stack["imports"].append(name)
        return found[1]

    return value
