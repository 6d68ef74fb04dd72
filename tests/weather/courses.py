"""Runs of several workflows one after another, in a weather, each compared with the same run in fair weather."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.clusters.crank import Turned
from tests.weather import report, scenarios
from tests.weather.ground import QUICK, Ground
from tests.weather.profiles import Profile
from tests.weather.scenarios import SCENARIOS, Scenario, scenario

from instantstart_sandbox.world.settings import Settings as SandboxSettings

#: how often a person mends and retries before it counts as stuck
_RETRIES = 5
FAIR = Profile("fair", "nothing goes wrong")


@dataclass(frozen=True)
class Course:
    """Workflows in order. ``after``: what has been done in fair weather before; nothing: an empty account."""

    name: str
    scenarios: tuple[Scenario, ...]
    after: tuple[str, ...] = ()


def courses() -> tuple[Course, ...]:
    """The journey, and the courses of the slices that need more than a cluster or stand by themselves. All end with a deletion."""
    names = dict.fromkeys(each.course for each in SCENARIOS)
    return tuple(_course(name, scenarios.course(name)) for name in names)


def _course(name: str, members: tuple[Scenario, ...]) -> Course:
    deletion = scenario("cluster.delete")
    return Course(name, members if members[-1] is deletion else (*members, deletion), members[0].after)


Worlds = dict[str, list[str]]


def run(ground: Ground, course: Course, profile: Profile, expected: Worlds | None = None) -> Worlds:
    """The worlds after each workflow. With ``expected`` each is held against it.

    A workflow that went wrong is set right in fair weather and the course goes on, so that one run tells of every workflow.
    AssertionError tells all that went wrong, or where the course could not go on.
    """
    found: Worlds = {}
    wrong: list[str] = []
    strikes = 0
    for each in course.scenarios:
        began = time.monotonic()
        turned, blocked, faults = _in_weather(ground, each, profile)
        rules = ground.sandbox.ask("faults")
        strikes += (struck := sum(rule["hits"] for rule in rules))
        fair(ground)
        ended = _told(turned, blocked)
        faults += [] if turned.status == "succeeded" or faults else [ended]
        if turned.status != "succeeded":
            profile.mend(ground)
            ground.crank.retry(turned)
        stuck = turned.status != "succeeded"
        world = found[each.workflow] = [] if stuck else ground.world_after(each)
        if expected is not None:
            verdict = report.difference(world, expected[each.workflow]) if not stuck else "not reached"
            seconds = round(time.monotonic() - began)
            row = report.Row(
                each.workflow, f"{profile.name} ({course.name})", ended, "; ".join(faults) or verdict, seconds=seconds, strikes=struck
            )
            report.add("weather", "matrix", [row])
            faults += [] if verdict == "equal" else [verdict]
        wrong += [f"{each.workflow} in {profile.name}: {fault}" for fault in faults]
        assert not stuck, "\n".join([*wrong, f"not even in fair weather: {_told(turned, set())}"])
    assert not wrong, "\n".join(wrong)
    is_of_a_cluster = "tag" in course.scenarios[0].declared.spec.model_fields  # a purchase asks nobody's Kubernetes
    assert expected is None or strikes or not (profile.strikes and is_of_a_cluster), "no call was ever struck, so nothing was proven"
    return found


def _told(turned: Turned, blocked: set[str]) -> str:
    ended = f"{turned.status}{f' after {sorted(blocked)}' if blocked else ''}"
    if turned.status == "succeeded":
        return ended
    return f"{ended} at {turned.stopped_at}: {turned.problem.document() if turned.problem else None}"


def fair(ground: Ground) -> None:
    """Fair weather, whatever it was."""
    ground.sandbox.clear()
    ground.sandbox.admin("settings", **{**SandboxSettings().dump(), **QUICK})
    ground.crank.discard = lambda _stage, _outcome: False
    ground.crank.before_look = lambda _turned, _stage: None


def _in_weather(ground: Ground, each: Scenario, profile: Profile) -> tuple[Turned, set[str], list[str]]:
    """One workflow; when it is blocked for a reason of this weather, a person mends that and retries.

    How it ended, the codes it stood blocked with, and what is wrong with that: a reason that is not this weather's, no next step.
    """
    ground.prepare(each)
    spec = each.spec(ground)
    profile.begin(ground)
    if profile.between is not None:
        ground.crank.before_look = profile.between(ground)
    if profile.discard is not None:
        ground.crank.discard = profile.discard()
    turned, blocked = ground.crank.run(each.declared, spec), set[str]()
    faults: list[str] = []
    for _ in range(_RETRIES):
        problem = turned.problem
        if problem is None or turned.status not in ("blocked", "failed"):
            break
        if not problem.hint:
            faults.append(f"{problem.code} says no next step")
        if problem.code in each.anew:
            blocked.add(problem.code)
            turned = ground.crank.run(each.declared, spec)
            continue
        if turned.status == "failed" or problem.code not in profile.reasons:
            faults.append(f"{turned.status} for no reason at {turned.stopped_at}: {problem.document()}")
            break
        blocked.add(problem.code)
        profile.mend(ground)
        ground.crank.retry(turned)
    return turned, blocked, faults
