"""The engine turned by hand: the product's own stages, ticked one by one, with virtual time that passes only when a stage waits.

What the real engine does in real time (tests/operations proves it) is done here at the speed of the calls, and what a kill does is
done on purpose: an outcome is thrown away after the act, and the stage is called again with nothing remembered.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.clusters.worlds import SandboxProcess

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.operations.declare import Run, Stage, Together, Workflow
from instantstart.operations.reactions import Reaction, last_word, pause_seconds, reaction_to

MOST_TICKS = 4000
#: over all cranks: what an operation noted in the store must not be another's
_NUMBERS = itertools.count(1)
Discard = Callable[[str, Outcome], bool]


@dataclass
class _Standing:
    """One stage of an operation."""

    stage: Stage
    attempt: int = 1
    started: float | None = None
    next_at: float = 0.0
    misses: int = 0
    done: bool = False
    problem: problems.Problem | None = None


@dataclass
class Turned:
    """An operation turned by hand. ``said`` is every sentence of every stage, in order."""

    id: str
    workflow: Workflow
    spec: Any
    status: str = "running"
    learned: dict[str, dict[str, Any]] = field(default_factory=dict)
    said: list[tuple[str, str]] = field(default_factory=list)
    stages: dict[str, _Standing] = field(default_factory=dict)
    problem: problems.Problem | None = None
    stopped_at: str = ""
    seconds: float = 0.0

    @property
    def result(self) -> dict[str, Any]:
        """What the last stage learned."""
        return self.learned[self.workflow.stages()[-1].name]

    def sentences(self, stage: str) -> str:
        """All that one stage said."""
        return "\n".join(text for name, text in self.said if name == stage)


class Crank:
    """Turns operations against one sandbox. ``discard`` says which outcomes are lost: the process died before it wrote them down."""

    def __init__(self, room: Any, sandbox: SandboxProcess) -> None:
        self.room, self.sandbox = room, sandbox
        self.discard: Discard = lambda stage, outcome: False
        #: of the wall, each time when virtual time passes: for what processes of this machine do
        self.real_pause_seconds = 0.0
        #: called before each look of a stage: what goes on in the world meanwhile
        self.before_look: Callable[[Turned, str], None] = lambda turned, stage: None

    def run(self, workflow: Workflow, spec: Any, until: str | None = None) -> Turned:
        """Begin an operation and turn it to its end, or until a stage is done (what a cancel between ticks does)."""
        turned = Turned(f"op-{next(_NUMBERS)}", workflow, spec, stages={s.name: _Standing(s) for s in workflow.stages()})
        return self.turn(turned, until)

    def retry(self, turned: Turned, until: str | None = None) -> Turned:
        """A person's retry: the stopped stage goes on with a fresh deadline."""
        for standing in turned.stages.values():
            if standing.problem is not None:
                standing.attempt, standing.problem, standing.misses, standing.started = standing.attempt + 1, None, 0, turned.seconds
        turned.status, turned.problem, turned.stopped_at = "running", None, ""
        return self.turn(turned, until)

    def turn(self, turned: Turned, until: str | None = None, ticks: int = MOST_TICKS) -> Turned:
        """Go on until the end, until a stage is done, or for a number of ticks."""
        turned.status = "running"
        for step in turned.workflow.steps:
            group = [turned.stages[s.name] for s in (step.stages if isinstance(step, Together) else (step,))]
            for standing in group:
                if standing.started is None:
                    standing.started = standing.next_at = turned.seconds
            while not all(s.done for s in group):
                if (until and turned.stages[until].done) or ticks <= 0:
                    turned.status = "cancelled" if until else "running"
                    return turned
                ticks -= 1
                self._tick(turned, min((s for s in group if not s.done), key=lambda s: s.next_at))
                if turned.status != "running":
                    return turned
            if until and turned.stages[until].done:
                turned.status = "cancelled"
                return turned
        turned.status = "succeeded"
        return turned

    def _tick(self, turned: Turned, standing: _Standing) -> None:
        if standing.next_at > turned.seconds:
            time.sleep(self.real_pause_seconds)
            self.sandbox.warp(standing.next_at - turned.seconds)
            turned.seconds = standing.next_at
            for aws in self.room.aws._regions.values():
                aws._kept.clear()  # what is kept for some seconds is kept by the wall's clock, which a warp does not move
        stage, run = standing.stage, self._run(turned, standing)
        if stage.when is not None and not stage.when(turned.spec):
            standing.done = True
            return
        self.before_look(turned, stage.name)
        try:
            outcome = stage.act(self.room, run)
        except problems.Problem as problem:
            self._react(turned, standing, problem)
            return
        if self.discard(stage.name, outcome):
            return
        standing.misses = 0
        if isinstance(outcome, Done):
            standing.done = True
            turned.learned[stage.name] = json.loads(json.dumps(dict(outcome.learned)))
            turned.said.append((stage.name, outcome.note or "done"))
        else:
            self._wait(turned, standing, outcome, None)

    def _run(self, turned: Turned, standing: _Standing) -> Run:
        return Run(
            id=turned.id,
            workflow=turned.workflow.name,
            stage=standing.stage.name,
            spec=turned.spec,
            learned=turned.learned,
            waited_seconds=_waited(turned, standing),
            created_at=dt.datetime.now(dt.UTC),
            caller="tester",
            attempt=standing.attempt,
        )

    def _react(self, turned: Turned, standing: _Standing, problem: problems.Problem) -> None:
        standing.misses += 1
        reaction = reaction_to(problem)
        if reaction is Reaction.again:
            self._wait(turned, standing, Wait(pause_seconds(standing.misses, problem), problem.detail), problem)
        else:
            self._stop(turned, standing, problem, "blocked" if reaction is Reaction.block else "failed")

    def _wait(self, turned: Turned, standing: _Standing, wait: Wait, problem: problems.Problem | None) -> None:
        if _waited(turned, standing) >= standing.stage.within:
            self._stop(turned, standing, problem or last_word(standing.stage.name, standing.stage.within, wait), "blocked")
            return
        turned.said.append((standing.stage.name, wait.because))
        standing.next_at = turned.seconds + max(wait.seconds, 0.1)

    def _stop(self, turned: Turned, standing: _Standing, problem: problems.Problem, status: str) -> None:
        standing.problem = turned.problem = problem
        turned.status, turned.stopped_at = status, standing.stage.name


def _waited(turned: Turned, standing: _Standing) -> float:
    return turned.seconds - standing.started if standing.started is not None else 0.0
