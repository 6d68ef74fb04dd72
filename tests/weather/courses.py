"""Runs of several workflows one after another, in a weather, each compared with the same run in fair weather."""

from __future__ import annotations

from dataclasses import dataclass

from tests.clusters.crank import Turned
from tests.weather import report
from tests.weather.ground import QUICK, Ground
from tests.weather.profiles import Profile
from tests.weather.scenarios import SCENARIOS, Scenario, journey, scenario

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
    """The journey through every workflow, and one course for each workflow that stands by itself. All end with a deletion."""
    deletion = scenario("cluster.delete")
    alone = tuple(Course(each.workflow, (each, deletion), each.after) for each in SCENARIOS if not each.in_journey)
    return (Course("journey", journey()), *alone)


Worlds = dict[str, list[str]]


def run(ground: Ground, course: Course, profile: Profile, expected: Worlds | None = None) -> Worlds:
    """The worlds after each workflow. With ``expected`` each is held against it; AssertionError tells the first difference."""
    found: Worlds = {}
    for each in course.scenarios:
        turned, blocked = _in_weather(ground, each, profile)
        fair(ground)
        world = found[each.workflow] = ground.world(each.differs)
        ended = f"{turned.status}{f' after {sorted(blocked)}' if blocked else ''}"
        if turned.status != "succeeded":
            ended = f"{ended} at {turned.stopped_at}: {turned.problem.document() if turned.problem else None}"
        if expected is None:
            assert turned.status == "succeeded", f"{each.workflow} in fair weather: {ended}"
            continue
        verdict = report.difference(world, expected[each.workflow])
        report.add("weather", "matrix", [report.Row(each.workflow, f"{profile.name} ({course.name})", ended, verdict)])
        assert turned.status == "succeeded", f"{each.workflow} in {profile.name}: {ended}"
        assert verdict == "equal", f"{each.workflow} in {profile.name}: {verdict}"
    return found


def fair(ground: Ground) -> None:
    """Fair weather, whatever it was."""
    ground.sandbox.clear()
    ground.sandbox.admin("settings", **{**SandboxSettings().dump(), **QUICK})
    ground.crank.discard = lambda _stage, _outcome: False
    ground.crank.before_look = lambda _turned, _stage: None


def _in_weather(ground: Ground, each: Scenario, profile: Profile) -> tuple[Turned, set[str]]:
    """One workflow; when it is blocked for a reason of this weather, a person mends that and retries."""
    if each.before is not None:
        each.before(ground)
    spec = each.spec(ground)
    profile.begin(ground)
    if profile.between is not None:
        ground.crank.before_look = profile.between(ground)
    if profile.discard is not None:
        ground.crank.discard = profile.discard()
    turned, blocked = ground.crank.run(each.declared, spec), set[str]()
    while turned.status == "blocked" and turned.problem is not None and len(blocked) < _RETRIES:
        problem = turned.problem
        if problem.code in each.anew:
            break
        assert problem.code in profile.reasons, f"{each.workflow} in {profile.name} is blocked for no reason: {problem.document()}"
        assert problem.hint, f"{problem.code} says no next step"
        blocked.add(problem.code)
        profile.mend(ground)
        ground.crank.retry(turned)
    for _ in range(_RETRIES):
        if turned.problem is None or turned.problem.code not in each.anew:
            break
        assert turned.problem.hint, f"{turned.problem.code} says no next step"
        blocked.add(turned.problem.code)
        turned = ground.crank.run(each.declared, spec)
    return turned, blocked
