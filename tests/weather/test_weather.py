"""Every workflow in every weather: it ends right, or blocked with the true reason and a next step, and the world is the undisturbed one.

The table is ``build/weather/matrix.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws import ledgers
from tests.weather import courses
from tests.weather.courses import Course, Worlds
from tests.weather.ground import Ground, Station
from tests.weather.profiles import PROFILES, Profile
from tests.weather.selection import EVERYTHING

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


#: weathers for the courses beside the journey, which meets them all
REST = frozenset({"storm", "crash", "lost", "throttle", "credentials"})


def _chosen(course: Course, profile: Profile) -> bool:
    return EVERYTHING or course.name == "journey" or profile.name in REST


def _marks(course: Course, profile: Profile) -> list[pytest.MarkDecorator]:
    return [] if (course.name, profile.name) in DAILY else [pytest.mark.slow]


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("course", "profile"),
    [pytest.param(c, p, id=f"{c.name}-{p.name}", marks=_marks(c, p)) for c in COURSES for p in PROFILES if _chosen(c, p)],
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


def test_an_empty_account_is_empty_again_after_every_workflow(known_calls: None, station: Station) -> None:
    ground = station.empty()
    before = ground.world()
    for each in COURSES[0].scenarios:
        done = ground.run(each)
        assert done.status == "succeeded", (each.workflow, done.stopped_at, done.problem and done.problem.document())
    assert ground.world() == before
