"""What a tool is: its route by name, whom it is for, what it does to the world, and how its answer is cut down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Toolset(StrEnum):
    """Groups that a client may ask for; the door's roles decide, whatever was listed."""

    read = "read"
    operate = "operate"
    admin = "admin"


class Area(StrEnum):
    """What a tool is about; without a word the core is listed, an area is added by its name."""

    core = "core"
    capacity = "capacity"
    storage = "storage"
    features = "features"
    training = "training"
    inference = "inference"


class Effect(StrEnum):
    """What a tool does to the world."""

    reads = "reads"
    changes = "changes"
    destroys = "destroys"


class Shape(StrEnum):
    """How the answer is cut down for a model; see projections.py."""

    compact = "compact"
    operation = "operation"
    progress = "progress"
    operations = "operations"
    events = "events"
    instance_types = "instance_types"
    clusters = "clusters"
    fleet = "fleet"
    nodes = "nodes"
    model_answer = "model_answer"
    logs = "logs"
    recorded = "recorded"


#: a tool without the approval that it takes changes nothing: it answers its plan, which carries one
PLANNED = "Answers a plan first; pass its approval."
#: the same of a tool that takes an approval only where something is paid for, disturbed or lost
PLANNED_WHERE = "Where it costs, disturbs or loses something, it answers a plan first; pass its approval."


@dataclass(frozen=True)
class Tool:
    """One tool. ``name`` is the operationId of its route; ``status_tool`` is the reading tool that tells when a change is complete."""

    name: str
    says: str
    area: Area = Area.core
    toolset: Toolset = Toolset.read
    effect: Effect = Effect.reads
    status_tool: str | None = None
    shape: Shape = Shape.compact
    #: parameters of the route that a model is not shown
    hides: frozenset[str] = frozenset()
    #: the path's ``cluster`` must be said, not taken from the selection
    names_cluster: bool = False
    #: the workflow of a tool that makes up a tag where none is given: called again meanwhile, it answers the operation under way
    makes_up_tag_for: str | None = None

    @property
    def description(self) -> str:
        """What the model reads: the sentence, and where the end is seen."""
        return f"{self.says} Completion: {self.status_tool}." if self.status_tool else self.says


def reads(name: str, says: str, area: Area = Area.core, shape: Shape = Shape.compact, *hides: str) -> Tool:
    """A tool that changes nothing."""
    return Tool(name, says, area, shape=shape, hides=frozenset(hides))


def begins(name: str, says: str, area: Area = Area.core, *, names_cluster: bool = False) -> Tool:
    """A tool that begins an operation which makes or changes something."""
    return Tool(name, says, area, Toolset.operate, Effect.changes, "operation_wait", Shape.operation, names_cluster=names_cluster)


def costs(name: str, says: str, area: Area = Area.core, *, told: str = PLANNED, makes_up_tag_for: str | None = None) -> Tool:
    """A tool that begins what is paid for by the hour: its plan first, whose approval it takes."""
    return Tool(
        name, f"{says} {told}", area, Toolset.operate, Effect.changes, "operation_wait", Shape.operation, makes_up_tag_for=makes_up_tag_for
    )


def changes(name: str, says: str, area: Area, status_tool: str, shape: Shape = Shape.compact) -> Tool:
    """A tool that changes something at once; ``status_tool`` shows what came of it."""
    return Tool(name, says, area, Toolset.operate, Effect.changes, status_tool, shape)


def ends(name: str, says: str, area: Area = Area.core) -> Tool:
    """A tool of an operator that stops or removes something by an operation."""
    return Tool(name, says, area, Toolset.operate, Effect.destroys, "operation_wait", Shape.operation)


def removes(name: str, says: str, area: Area = Area.core, *, names_cluster: bool = False) -> Tool:
    """A tool of the admin set that removes something by an operation, after its plan; a person agrees before."""
    return Tool(
        name, f"{says} {PLANNED}", area, Toolset.admin, Effect.destroys, "operation_wait", Shape.operation, names_cluster=names_cluster
    )


def on_nodes(name: str, says: str, effect: Effect = Effect.changes) -> Tool:
    """A tool that acts on nodes: where work is disturbed or data lost, its plan carries an approval."""
    return Tool(name, f"{says} {PLANNED_WHERE}", Area.capacity, Toolset.operate, effect, "operation_wait", Shape.operation)
