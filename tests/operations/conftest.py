"""An engine with toy workflows in this process, and programs of its kind in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.databases import data_dir, database_url, postgres_server  # noqa: F401 - fixtures
from tests.operations import toys
from tests.operations.world import World

from instantstart import store
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.operations.declare import Workflow
from instantstart.operations.engine import Engine
from instantstart.operations.record import Operation

ROOT = Path(__file__).parents[2]
LONG = 60.0


class House:
    """One engine and what is around it; ``restart`` is a clean stop and a new start on the same data."""

    def __init__(self, url: str | None, folder: Path, world: World, clock: Clock) -> None:
        self.settings = Settings(data_dir=folder, database_url=url, replica_id="one")
        self.world = world
        self.clock = clock
        self.workflows: tuple[Workflow, ...] = toys.ALL
        self.store = store.open(url, folder)
        self.engine = self._engine()

    def _engine(self) -> Engine:
        engine = Engine(self.store, self.clock, self.settings, self.workflows)
        engine.bind(toys.Room(self.world))
        return engine

    def restart(self, *workflows: Workflow) -> Engine:
        self.engine.shutdown()
        self.workflows = workflows or self.workflows
        self.engine = self._engine()
        self.engine.launch()
        return self.engine

    def start(self, workflow: str, name: str, **rest: Any) -> Operation:
        return self.engine.start(workflow, {"name": name, **rest}, caller="id-toy")[0]

    def until(self, operation: Operation, *statuses: str) -> Operation:
        """The operation once it stands at one of the statuses; an assertion when it does not get there."""
        seen = self.engine.wait_until(operation.id, lambda found: found.status in statuses, LONG)
        assert seen.status in statuses, f"{seen.status}: {seen.problem} {[(s.name, s.status, s.because) for s in seen.stages]}"
        return seen

    def messages(self, operation: Operation) -> list[str]:
        return [event.message for event in self.engine.events(operation.id)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world.sqlite")


@pytest.fixture
def idle_house(database_url: str | None, data_dir: Path, world: World) -> Iterator[House]:  # noqa: F811
    """Not launched yet."""
    house = House(database_url, data_dir, world, Clock())
    yield house
    house.engine.shutdown()
    house.store.close()


@pytest.fixture
def house(idle_house: House) -> House:
    idle_house.engine.launch()
    return idle_house


class Program:
    """The toy program as a process."""

    def __init__(self, asked: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "tests.operations.program", json.dumps(asked)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[dict[str, Any]] = []

    def line(self) -> dict[str, Any]:
        """Its next line; {} when it has gone."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        line: dict[str, Any] = json.loads(text) if text else {}
        self.said += [line] if line else []
        return line

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def finish(self) -> tuple[int, list[dict[str, Any]], str]:
        """Wait for its end: exit status, every line it has said, standard error."""
        out, err = self.process.communicate(timeout=240)
        self.said += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode, self.said, err


@pytest.fixture
def program(database_url: str | None, data_dir: Path, world: World) -> Iterator[Callable[..., Program]]:  # noqa: F811
    """Start toy programs on the test's data; all are gone at the end."""
    programs: list[Program] = []

    def begin(**asked: Any) -> Program:
        started = Program({"data": str(data_dir), "url": database_url, "world": str(world.path), **asked})
        programs.append(started)
        return started

    yield begin
    for each in programs:
        if each.process.poll() is None:
            each.kill()
        for pipe in (each.process.stdout, each.process.stderr):
            if pipe is not None:
                pipe.close()
