"""Toy workflows upon the toy world: each stage looks, makes one thing at most, and waits until it was looked at some times."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from tests.operations.world import World

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait
from instantstart.operations.declare import Cut, Run, Stage, StageFunction, Together, Workflow

DEATHS = ("before", "between", "after")
LOOK_SECONDS = 0.05
ERRORS: dict[str, Callable[[], Exception]] = {
    "invalid": lambda: problems.Invalid("toy.invalid", "This is wrong."),
    "conflict": lambda: problems.Conflict("toy.conflict", "This is in the way."),
    "not_found": lambda: problems.NotFound("toy.not_found", "This is not there."),
    "broken": lambda: problems.Broken("toy.broken", "We broke this."),
    "denied": lambda: problems.Denied("toy.denied", "This is forbidden.", hint="Grant it"),
    "unauthenticated": lambda: problems.Unauthenticated("toy.unauthenticated", "Who are you?"),
    "out_of_quota": lambda: problems.OutOfQuota("toy.out_of_quota", "The limit is 0."),
    "blocked": lambda: problems.Blocked("toy.blocked", "A person decides."),
    "no_capacity": lambda: problems.NoCapacity("toy.no_capacity", "There is none now."),
    "busy": lambda: problems.Busy("toy.busy", "Come back."),
    "unreachable": lambda: problems.Unreachable("toy.unreachable", "No answer."),
    "crash": lambda: RuntimeError("out of cheese"),
}


@dataclass(frozen=True)
class Room:
    """What toy stages are called with."""

    world: World


class Build(BaseModel):
    """What toy workflows are asked. ``die``: at which stage and where the process kills itself, once."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    looks: int = 1
    note: str = ""
    seconds: float = 0.05
    die_stage: str = ""
    die_where: Literal["", "before", "between", "after"] = ""
    fail_stage: str = ""
    fail_kind: str = ""
    without: str = ""


def _die(world: World, run: Run, where: str) -> None:
    wanted = run.spec.die_stage == run.stage and run.spec.die_where == where
    if wanted and world.mark(f"died/{run.id}") == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def _fail(world: World, run: Run) -> None:
    """Raise what is asked for, as long as the world bears the mark ``weather/<name>``."""
    if run.spec.fail_stage == run.stage and world.marked(f"weather/{run.spec.name}"):
        raise ERRORS[run.spec.fail_kind]()


def build(room: Room, run: Run) -> Outcome:
    """Look; make the thing when it is not there; wait until it was looked at often enough."""
    world, name = room.world, f"{run.spec.name}/{run.stage}"
    _die(world, run, "before")
    _fail(world, run)
    looks = world.looks(name)
    if looks is None:
        world.make(name, run.token("make"))
        _die(world, run, "between")
        looks = 0
    if looks < run.spec.looks:
        return Wait(LOOK_SECONDS, f"{name} is not ready", Progress(looks, run.spec.looks, "looks"))
    _die(world, run, "after")
    return Done({"name": name, "made_after": sorted(run.learned)})


def crowd(room: Room, run: Run) -> Outcome:
    """Hold the subject for a moment; the ledger shows whether anybody was there at the same time."""
    if room.world.mark(f"entered/{run.id}") == 0:
        room.world.note(run.spec.name + run.spec.note, "begin")
        return Wait(run.spec.seconds, "inside")
    room.world.note(run.spec.name + run.spec.note, "end")
    return Done()


def gate(room: Room, run: Run) -> Outcome:
    """Wait until the world bears the mark ``open/<name>``."""
    room.world.mark(f"looked/{run.spec.name}")
    return Done({"opened": True}) if room.world.marked(f"open/{run.spec.name}") else Wait(run.spec.seconds, "the gate is shut")


def slow_act(room: Room, run: Run) -> Outcome:
    """An act that takes a while inside one look."""
    room.world.note(run.spec.name, "begin")
    deadline = time.monotonic() + 20
    while not room.world.marked(f"open/{run.spec.name}") and time.monotonic() < deadline:
        time.sleep(0.02)
    room.world.note(run.spec.name, "end")
    return Done({"acted": True})


def blind(room: Room, run: Run) -> Outcome:
    """An act without a look: what a client token is for."""
    room.world.make(f"{run.spec.name}/{run.token('make')}/{room.world.mark('blind')}", run.token("make"))
    _die(room.world, run, "between")
    raise problems.Broken("toy.broken", "It breaks every time.")


def already(room: Room, run: Run) -> Outcome:
    """A wish that was true before."""
    return Done({"attempt": run.attempt, "caller": run.caller}, already=True, note="It was there")


def unfit(kind: str) -> StageFunction:
    """A stage that learns what cannot be kept."""

    def stage(room: Room, run: Run) -> Outcome:
        kinds: dict[str, dict[str, Any]] = {"object": {"x": object()}, "secret": {"password": "p" * 12}}
        return Done(kinds[kind])

    return stage


def _workflow(name: str, *steps: Stage | Together, queueable: bool = False) -> Workflow:
    return Workflow(name, f"Toy {name}", Build, lambda spec: f"toy/{spec.name}", steps, queueable=queueable)


BUILD = _workflow(
    "toy.build",
    Stage("ground", build, "Lay the ground", within=60, typical=1),
    Together(
        (
            Stage("left", build, "Build the left wall", within=60, typical=2),
            Stage("right", build, "Build the right wall", within=60, typical=3),
        )
    ),
    Stage("door", build, "Hang the door", within=60, typical=1, when=lambda spec: spec.without != "door"),
    Stage("roof", build, "Put the roof on", within=60, typical=1),
)
BUILD_STAGES = tuple(stage.name for stage in BUILD.stages())


def left(cut: Cut) -> problems.Problem | None:
    """What a cancel leaves once the gate was begun."""
    return problems.Blocked("toy.left", "Dust is left.", hint="Sweep up.") if "gate" in cut.begun else None


LEAVING = dataclasses.replace(_workflow("toy.leaving", Stage("gate", gate, "Wait for the gate", within=600)), left_behind=left)
QUEUED_LEAVING = dataclasses.replace(LEAVING, name="toy.queued_leaving", queueable=True)
CROWD = _workflow("toy.crowd", Stage("hold", crowd, "Hold the subject", within=600), queueable=True)
GATE = _workflow("toy.gate", Stage("gate", gate, "Wait for the gate", within=600, typical=10), Stage("behind", build, "Build behind it"))
IMPATIENT = _workflow("toy.impatient", Stage("gate", gate, "Wait for the gate, not long", within=0.6, typical=0.1))
SLUGGISH = _workflow("toy.sluggish", Stage("gate", gate, "Wait for the gate, long", within=600, typical=0.05))
SLOW_ACT = _workflow("toy.slow_act", Stage("act", slow_act, "Act for a while"), Stage("behind", build, "Build behind it"))
ALREADY = _workflow("toy.already", Stage("was", already, "Look whether it is there"))
OBJECT = _workflow("toy.object", Stage("learn", unfit("object"), "Learn an object"))
SECRET = _workflow("toy.secret", Stage("learn", unfit("secret"), "Learn a secret"))
WALLS = _workflow(
    "toy.walls", Together((Stage("gate", gate, "Wait for the gate", within=600), Stage("wall", build, "Build a wall", within=0.5)))
)
RAZE = dataclasses.replace(_workflow("toy.raze", Stage("act", already, "Take it down")), overtakes=frozenset({"toy.build", "toy.gate"}))
BLIND = _workflow("toy.blind", Stage("act", blind, "Act without looking"))
ALL = (BLIND, BUILD, CROWD, GATE, IMPATIENT, SLUGGISH, SLOW_ACT, ALREADY, OBJECT, SECRET, WALLS, LEAVING, QUEUED_LEAVING, RAZE)
