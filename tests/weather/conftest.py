"""The station: one port, one set of rooms, and worlds that are made once and laid out again for each test."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from botocore.retries.standard import ExponentialBackoff
from tests.aws import ledgers
from tests.clusters.worlds import REGION, bundles
from tests.weather import report, selection
from tests.weather.ground import Ground, Station

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.kube import connection

#: files whose tests each tell one run, and the workflow that it is of
TOLD = {"test_disk.py": "eks.create", "test_clients.py": "cluster.create"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of this room's slow runs, and of the courses in fair weather, those of this turn."""
    if selection.EVERYTHING or config.option.keyword or any("::" in each for each in config.args):
        return
    mine = [item for item in items if item.path.parent == Path(__file__).parent]
    slow = [item.nodeid for item in mine if item.get_closest_marker("slow")]
    courses = [item.nodeid for item in mine if item.get_closest_marker("in_turn")]
    chosen = selection.share(slow, selection.TURN, selection.MINUTES) | selection.one(courses, selection.TURN)
    left_out = [item for item in mine if item.nodeid in {*slow, *courses} and item.nodeid not in chosen]
    config.hook.pytest_deselected(items=left_out)
    gone = {item.nodeid for item in left_out}
    items[:] = [item for item in items if item.nodeid not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Runs that judge by more than the world are told by their names."""
    told = yield
    if told.when == "call" and item.path.name in TOLD and item.path.parent == Path(__file__).parent and not told.skipped:
        point = item.name.removeprefix("test_").replace("_", " ")
        right = "equal" if told.passed else _wrong(told)
        report.add("crash", "weather of the process", [report.Row(TOLD[item.path.name], point, told.outcome, right)])
    return told


def _wrong(told: pytest.TestReport) -> str:
    """The first line of what went wrong."""
    lines = [line for line in told.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0][:400] if lines else "failed"


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    """Started once; virtual time goes at the pace of the wall and by warp unless a test wants another rate."""
    made = Station(tmp_path_factory.mktemp("station"))
    made.start(1.0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.sandbox.environment().items():
            patch.setenv(name, value)
        # botocore's pauses between its own tries are real seconds; the tries stay, the pauses go
        patch.setattr(ExponentialBackoff, "delay_amount", lambda self, context: 0.0)
        patch.setattr(connection, "LONGEST_PAUSE_SECONDS", 0.0)
        patch.setattr(connection, "DOWN_SECONDS", 0.0)
        made.room = main.compose(
            Settings(data_dir=tmp_path_factory.mktemp("house"), bundles_dir=bundles(), region=REGION, hub_url=made.sandbox.hub)
        )
        yield made
        made.room.kube.close()
        made.room.store.close()
    made.sandbox.stop()


@pytest.fixture
def nothing(station: Station) -> Iterator[Ground]:
    """An empty account in fair weather. No call of a test may crash the sandbox, or be one that it does not know."""
    ground = station.ground()
    yield ground
    ledgers.check(ground.sandbox)
