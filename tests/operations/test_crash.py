"""kill -9 of a real process at every point: the world equals the undisturbed run's, and each act has happened once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.operations import crash_report, toys
from tests.operations.conftest import LONG, House, Program
from tests.operations.world import World

from instantstart import store

POINTS = [(stage, where) for stage in toys.BUILD_STAGES for where in toys.DEATHS]
KILLED = -9


def database_name(url: str | None) -> str:
    return "sqlite" if url is None else "postgres"


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, list[crash_report.Outcome]]]:
    """What each disturbed run came to; written at the end of the module."""
    found: dict[str, list[crash_report.Outcome]] = {}
    yield found
    for name, each in found.items():
        crash_report.write("toy.build", name, each)


def run_to_the_end(program: Callable[..., Program], start: list[object], wait: Callable[[Program], None] | None = None) -> int:
    """Start, and start again for as long as it is killed; the answer counts the kills."""
    for kills in range(40):
        running = program(start=start)
        if wait is not None:
            wait(running)
        status, lines, errors = running.finish()
        if status == 0:
            return kills
        assert status == KILLED, f"{status}: {lines} {errors}"
        accepted = sum("id" in line for line in lines)
        start = start[accepted:]  # after a crash the caller asks again only for what was not accepted
    raise AssertionError("it never came to an end")


def acts_of(name: str) -> list[str]:
    return [f"{name}/{stage}" for stage in toys.BUILD_STAGES]


@pytest.mark.parametrize(
    ("stage", "where"), [pytest.param(*point, marks=[] if point[0] == "left" else pytest.mark.slow) for point in POINTS]
)
def test_killed_before_between_and_after(
    stage: str,
    where: str,
    program: Callable[..., Program],
    world: World,
    idle_house: House,
    outcomes: dict[str, list[crash_report.Outcome]],
) -> None:
    """``before``: nothing was done yet; ``between``: the act was done and not recorded; ``after``: done, seen, not recorded."""
    kills = run_to_the_end(program, [["toy.build", {"name": "a", "die_stage": stage, "die_where": where}]])
    assert kills == 1, "the stage has killed its process"
    ended = idle_house.engine.list().items
    result = crash_report.outcome(f"{where} {stage}", kills, ended[0].status, world.acts(), acts_of("a"))
    outcomes.setdefault(database_name(idle_house.settings.database_url), []).append(result)
    assert result.right
    assert len(ended) == 1
    assert [each.status for each in ended[0].stages] == ["done"] * 5
    assert ended[0].result == {"name": "a/roof", "made_after": ["door", "ground", "left", "right"]}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))])
def test_killed_at_random_moments(
    seed: int,
    program: Callable[..., Program],
    world: World,
    idle_house: House,
    outcomes: dict[str, list[crash_report.Outcome]],
) -> None:
    """An outside killer that knows nothing of stages; also hits between our record and DBOS's, and during a recovery."""
    chance, left = random.Random(seed), 5

    def strike(running: Program) -> None:
        nonlocal left
        if left and running.line():
            left -= 1
            time.sleep(chance.uniform(0, 1.2))
            running.process.kill()

    names = ["a", "b", "c"]
    kills = run_to_the_end(program, [["toy.build", {"name": name, "looks": 4}] for name in names], strike)
    counted = Counter(world.acts())
    for name in names:
        mine = [act for act in counted.elements() if act.startswith(f"{name}/")]
        statuses = {each.status for each in idle_house.engine.list().items if each.subject == f"toy/{name}"}
        result = crash_report.outcome(f"random, seed {seed}, {name}", kills, " ".join(sorted(statuses)), mine, acts_of(name))
        outcomes.setdefault(database_name(idle_house.settings.database_url), []).append(result)
        assert result.right


def test_a_storm_of_kills_upon_a_queue_keeps_its_order(program: Callable[..., Program], world: World, idle_house: House) -> None:
    """One at a time and in order, whatever dies: an entry may be repeated by its own operation, never overlapped by another's."""
    chance, left = random.Random(7), 4

    def strike(running: Program) -> None:
        nonlocal left
        if left and running.line():
            left -= 1
            for _ in range(10 if left == 3 else 0):
                running.line()  # the first strike comes when all are accepted
            time.sleep(chance.uniform(0.1, 0.9))
            running.process.kill()

    run_to_the_end(program, [["toy.crowd", {"name": "q", "note": str(index), "seconds": 0.1}] for index in range(10)], strike)
    order = [int(name[1:]) for name, edge in world.edges() if edge == "end"]
    assert sorted(set(order)) == list(range(10))
    assert order == sorted(order)
    inside: set[str] = set()
    for name, edge in world.edges():
        assert inside <= {name}, f"{name} came while {inside} was inside"
        inside = {name} if edge == "begin" else set()
    assert {each.status for each in idle_house.engine.list().items} == {"succeeded"}


def test_a_token_is_the_same_after_a_crash_and_another_after_a_retry(
    program: Callable[..., Program], world: World, idle_house: House
) -> None:
    spec = {"name": "a", "die_stage": "act", "die_where": "between"}
    assert run_to_the_end(program, [["toy.blind", spec]]) == 1
    first, second = world.tokens()
    assert first == second
    assert len(first) == 64
    idle_house.engine.launch()
    failed = idle_house.engine.list().items[0]
    assert failed.status == "failed"
    idle_house.engine.retry(failed.id, "id-person")
    idle_house.engine.wait_until(failed.id, lambda _: len(world.tokens()) > 2, LONG)
    assert world.tokens()[2] != first


def test_a_crash_leaves_no_half_written_record(data_dir: Path, program: Callable[..., Program], database_url: str | None) -> None:
    victim = program(start=[["toy.build", {"name": "a", "looks": 100}]])
    for _ in range(2):
        victim.line()
    time.sleep(0.3)
    victim.kill()
    opened = store.open(database_url, data_dir)
    row = opened.operations.list_active()[0]
    assert [event.seq for event in opened.operations.events(row.id)] == list(range(1, row.seq + 1))
    opened.close()
