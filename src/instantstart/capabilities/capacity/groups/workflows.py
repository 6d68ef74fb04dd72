"""What can be done with instance groups. Declarations only; one operation at a time for each group, so that groups work side by side."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.capacity.groups import removal, resizing, specs, stages
from instantstart.operations.declare import Stage, Workflow

_NODES = Stage("nodes", stages.await_nodes, "See the nodes running", within=minutes(180), typical=300)
_JOIN = Stage("join", stages.await_join, "See the nodes ready in Kubernetes", within=minutes(30), typical=60)
_SCALED = Stage("join", resizing.await_scaled, "See the nodes ready in Kubernetes", within=minutes(30), typical=60)
_CHECKS = Stage("checks", stages.await_checks, "Let deep health checks end", within=minutes(240), typical=5)

ADD_INSTANCE_GROUP = Workflow(
    "instance_group.add",
    "Add an instance group",
    specs.AddTarget,
    specs.subject,
    (
        Stage("check", stages.check, "Check type, plan, zone, quota and addresses", within=minutes(30), typical=10),
        Stage("subnet", stages.place_subnet, "Find or make the subnet", within=minutes(30), typical=10),
        Stage("request", stages.request_group, "Ask SageMaker for the group", within=minutes(90), typical=5),
        _NODES,
        _JOIN,
    ),
)
UPDATE_INSTANCE_GROUP = Workflow(
    "instance_group.update",
    "Change an instance group",
    specs.UpdateTarget,
    specs.subject,
    (
        _CHECKS,
        Stage("request", stages.request_update, "Send the change, and nothing else", within=minutes(90), typical=5),
        Stage("settled", stages.settle_update, "See the change in force", within=minutes(200), typical=60),
    ),
)
SCALE_INSTANCE_GROUP = Workflow(
    "instance_group.scale",
    "Scale an instance group",
    specs.ScaleTarget,
    specs.subject,
    (
        _CHECKS,
        Stage("survey", stages.survey, "Write down the count that is there", within=minutes(30), typical=5),
        Stage("grow", resizing.grow, "Ask for more nodes", within=minutes(90), typical=5),
        Stage("choose", resizing.choose, "Choose the nodes that go, idle ones first", within=minutes(30), typical=5),
        Stage("drain", resizing.drain, "Let their pods leave", within=minutes(1500), typical=60),
        Stage("shrink", resizing.shrink, "Remove the chosen nodes", within=minutes(90), typical=10),
        Stage("gone", resizing.await_gone, "See the removed nodes gone", within=minutes(120), typical=300),
        _NODES,
        _SCALED,
    ),
    left_behind=resizing.left_cordoned,
)
DELETE_INSTANCE_GROUP = Workflow(
    "instance_group.delete",
    "Delete an instance group",
    specs.DeleteTarget,
    specs.subject,
    (
        _CHECKS,
        Stage("drain", removal.empty, "Let its pods leave", within=minutes(1500), typical=60),
        Stage("request", removal.request_deletion, "Ask SageMaker to delete it", within=minutes(90), typical=5),
        Stage("gone", removal.await_end, "See group and nodes gone", within=minutes(120), typical=300),
    ),
    left_behind=removal.left_cordoned,
    destructive=True,
)

WORKFLOWS = (ADD_INSTANCE_GROUP, UPDATE_INSTANCE_GROUP, SCALE_INSTANCE_GROUP, DELETE_INSTANCE_GROUP)
