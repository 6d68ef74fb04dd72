"""How a slice says what it can do: workflows of named stages, as data.

A stage is one synchronous function ``(room, run) -> Done | Wait``. It looks first (a wish already true is Done),
acts at most once, never sleeps, writes nothing but the world, and raises only Problems.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from instantstart.base.outcome import Outcome
from instantstart.base.problems import Problem


@dataclass(frozen=True)
class Run:
    """What a stage is told: the operation, what was asked, what earlier stages learned, how long it has waited."""

    id: str
    workflow: str
    stage: str
    spec: Any
    learned: Mapping[str, Mapping[str, Any]]
    #: seconds of the world since this stage first ran (survives restarts)
    waited_seconds: float
    #: when the operation was accepted (wall, UTC)
    created_at: dt.datetime
    #: the identity that asked, for tags and audit
    caller: str
    #: how often this stage has been retried by a person
    attempt: int = 1

    def token(self, name: str) -> str:
        """A client token for one AWS call: the same after a crash, another in another operation or stage.

        64 hexadecimal characters: fits EKS, EC2, CloudFormation and SageMaker (all take at least 64).
        """
        return hashlib.sha256(f"{self.id}/{self.stage}/{self.attempt}/{name}".encode()).hexdigest()


StageFunction = Callable[[Any, Run], Outcome]


@dataclass(frozen=True)
class Cut:
    """Where a cancel took effect: what was asked, what the stages had learned, and which of them had begun."""

    spec: Any
    learned: Mapping[str, Mapping[str, Any]]
    begun: Collection[str]


@dataclass(frozen=True)
class Stage:
    """One durable step. ``name`` is its persisted identity; ``says`` is the sentence every door shows."""

    name: str
    act: StageFunction
    says: str
    #: seconds of the world after which the stage is blocked (a person decides), never failed silently
    within: float = 1800.0
    #: usual seconds of the world, shown beside the elapsed time; past twice this the stage is ``slow``
    typical: float = 30.0
    #: optional: leave the stage out for this spec (shown as skipped)
    when: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Together:
    """Stages with no order between them: they run side by side, and all must be done before the next step."""

    stages: tuple[Stage, ...]


Step = Stage | Together


@dataclass(frozen=True)
class Workflow:
    """One thing the product can do. ``subject`` names what it works on: one operation at a time for each subject."""

    name: str
    title: str
    spec: type[BaseModel]
    subject: Callable[[Any], str]
    steps: tuple[Step, ...]
    #: keeps the database readable when a stage is renamed: {old: new}
    renamed: Mapping[str, str] = field(default_factory=dict)
    #: what a cancel leaves behind that a person may want to put back, as a Problem with the way to do it; None: nothing. Pure
    left_behind: Callable[[Cut], Problem | None] | None = None
    #: which operations an identical request may join while active; a different one is a Conflict
    destructive: bool = False
    #: True: behind another operation on the same subject it waits its turn, instead of being refused with a Conflict
    queueable: bool = False
    #: names of workflows on the same subject that this one ends instead of being refused: a deletion, what makes the thing
    overtakes: frozenset[str] = frozenset()

    def stages(self) -> tuple[Stage, ...]:
        """Every stage in declared order."""
        flat: list[Stage] = []
        for step in self.steps:
            flat.extend(step.stages if isinstance(step, Together) else (step,))
        return tuple(flat)


def check_declarations(workflows: Sequence[Workflow]) -> None:
    """Raise ValueError when two workflows, or two stages of one, share a name, or one is named that is none. Called once at start."""
    names = [w.name for w in workflows]
    if len(names) != len(set(names)):
        raise ValueError(f"two workflows share a name: {sorted(names)}")
    for workflow in workflows:
        if not workflow.overtakes <= set(names):
            raise ValueError(f"workflow {workflow.name} overtakes what is not declared: {sorted(workflow.overtakes - set(names))}")
        stages = [s.name for s in workflow.stages()]
        if not stages or len(stages) != len(set(stages)):
            raise ValueError(f"workflow {workflow.name} has no stage, or two of one name: {stages}")
