"""Every workflow in every weather: it ends right, or blocked with the true reason and a next step, and the world is the undisturbed one.

The table is ``build/weather/matrix.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws import ledgers
from tests.clusters import holdings
from tests.weather import courses
from tests.weather.courses import Course, Worlds
from tests.weather.ground import Ground, Station
from tests.weather.profiles import PROFILES, Profile

COURSES = courses.courses()
#: each day: the main job in the worst of weathers (and every workflow in fair weather, below)
DAILY = {("cluster.create", "storm")}


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Worlds]:
    """The worlds of each course in fair weather; filled by the first test that needs them."""
    return {}


@pytest.fixture
def known_calls(station: Station) -> Iterator[None]:
    """No call of a test may crash the sandbox, or be one that it does not know."""
    yield
    ledgers.check(station.sandbox)


def _laid_out(station: Station, course: Course) -> Ground:
    if reason := next((told for each in course.scenarios if (told := each.lacks())), ""):
        pytest.skip(reason)
    return station.ground(course.after) if course.after else station.empty()


def _marks(course: Course, profile: Profile) -> list[pytest.MarkDecorator]:
    return [] if (course.name, profile.name) in DAILY else [pytest.mark.slow]


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("course", "profile"),
    [pytest.param(c, p, id=f"{c.name}-{p.name}", marks=_marks(c, p)) for c in COURSES for p in PROFILES],
)
def test_it_ends_in_the_undisturbed_world(
    known_calls: None, station: Station, undisturbed: dict[str, Worlds], course: Course, profile: Profile
) -> None:
    if course.name not in undisturbed:
        undisturbed[course.name] = courses.run(_laid_out(station, course), course, courses.FAIR)
    ground = _laid_out(station, course)
    try:
        courses.run(ground, course, profile, undisturbed[course.name])
    finally:
        courses.fair(ground)


def _turn_marks(course: Course) -> list[pytest.MarkDecorator]:
    if course.name == "journey":
        return []
    # MLflow's own servers take a minute to come up
    return [pytest.mark.slow if any(each.lacks is not str for each in course.scenarios) else pytest.mark.in_turn]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("course", [pytest.param(c, id=c.name, marks=_turn_marks(c)) for c in COURSES])
def test_nothing_of_a_cluster_is_left_after_every_workflow_and_the_deletion(known_calls: None, station: Station, course: Course) -> None:
    ground = _laid_out(station, course)
    for each in course.scenarios:
        done = ground.run(each)
        assert done.status == "succeeded", (each.workflow, done.stopped_at, done.problem and done.problem.document())
    left = [line for line in ground.world() if not line.startswith(holdings.OUTLIVES)]
    assert [line for line in left if ground.tag in line] == []
    assert left == [] or course.name != "journey"
