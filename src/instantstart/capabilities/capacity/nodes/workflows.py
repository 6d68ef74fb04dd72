"""What can be done to nodes: the table of contents. Every act has a baseline before it, since AWS's calls have no client token."""

from __future__ import annotations

from instantstart.capabilities.capacity.nodes import software, specs, stages
from instantstart.capabilities.vocabulary import subject
from instantstart.operations.declare import Stage, Workflow

_DAY = 25 * 3600.0
_BASELINE = Stage("baseline", stages.baseline, "Write down what the nodes are", within=1800, typical=5)
_DRAIN = Stage("drain", stages.empty, "Let the pods leave", within=_DAY, typical=60)
_GIVE_BACK = Stage("give_back", stages.give_back, "Let pods onto the nodes again", within=1800, typical=5)

REBOOT_NODES = Workflow(
    "node.reboot",
    "Reboot nodes",
    specs.NodesTarget,
    subject,
    (_BASELINE, _DRAIN, Stage("reboot", stages.reboot, "Reboot, and see the nodes Ready", within=3600, typical=180), _GIVE_BACK),
    left_behind=stages.left_cordoned,
    destructive=True,
    queueable=True,
)
REPLACE_NODES = Workflow(
    "node.replace",
    "Replace nodes",
    specs.NodesTarget,
    subject,
    (
        _BASELINE,
        _DRAIN,
        Stage("replace", stages.renew, "Replace, and see the new instances Ready", within=4 * 3600, typical=900),
        _GIVE_BACK,
    ),
    left_behind=stages.left_cordoned,
    destructive=True,
    queueable=True,
)
DELETE_NODES = Workflow(
    "node.delete",
    "Delete nodes",
    specs.NodesTarget,
    subject,
    (_BASELINE, _DRAIN, Stage("delete", stages.delete, "Delete, and see the nodes gone", within=3600, typical=300), _GIVE_BACK),
    left_behind=stages.left_cordoned,
    destructive=True,
    queueable=True,
)
MOVE_NODES = Workflow(
    "node.move",
    "Move nodes to another group",
    specs.MoveTarget,
    subject,
    (_BASELINE, Stage("move", stages.move, "Move, and see the nodes in the other group", within=3600, typical=60), _GIVE_BACK),
    queueable=True,
)
CHECK_NODES = Workflow(
    "node.check",
    "Check nodes deeply",
    specs.CheckTarget,
    specs.check_subject,
    (_BASELINE, _DRAIN, Stage("check", stages.check, "Check, and see the results", within=4 * 3600, typical=5400), _GIVE_BACK),
    left_behind=stages.left_cordoned,
    queueable=True,
)
UPDATE_SOFTWARE = Workflow(
    "software.update",
    "Update the nodes' software",
    specs.SoftwareTarget,
    subject,
    (
        Stage("survey", software.survey, "Write down what the nodes run", within=1800, typical=5),
        Stage("update", software.update, "Update, and see it on every node", within=12 * 3600, typical=2400),
    ),
    destructive=True,
    queueable=True,
)

WORKFLOWS = (REBOOT_NODES, REPLACE_NODES, DELETE_NODES, MOVE_NODES, CHECK_NODES, UPDATE_SOFTWARE)
