"""Two and three clients at once on clusters, at the real process: one wish is one operation, and no two get in each other's way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.aws import ledgers
from tests.weather.ground import TYPE, ZONE, Station
from tests.weather.house import House
from tests.weather.scenarios import scenario

RATE = 60.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def house(station: Station, tmp_path: Path) -> Iterator[House]:
    """A control plane on an empty account."""
    made = House(tmp_path / "house", station.ground((), RATE))
    made.start()
    yield made
    made.plane.stop()
    ledgers.check(station.sandbox)


def _ask(house: House, tag: str, **more: Any) -> tuple[int, dict[str, Any]]:
    body = {"tag": tag, "zone": ZONE, "instance_type": TYPE, **more}
    headers = {"Authorization": f"Bearer {house.plane.token}"}
    answer = httpx2.post(f"{house.plane.url}/api/v1/clusters", json=body, headers=headers, timeout=120)
    return answer.status_code, dict(answer.json())


def _at_once(house: House, *asks: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(lambda ask: _ask(house, **ask), asks))


def _delete(house: House) -> str:
    return house.ask(scenario("cluster.delete"))


def test_three_that_wish_the_same_get_one_operation_and_one_that_wishes_otherwise_is_told_of_it(house: House) -> None:
    same = _at_once(house, {"tag": "demo"}, {"tag": "demo"}, {"tag": "demo"})
    assert {status for status, _ in same} == {202}
    (operation,) = {answer["id"] for _, answer in same}
    status, refused = _ask(house, "demo", instance_count=2)
    assert (status, refused["code"]) == (409, "operation.subject_busy")
    assert operation in refused["detail"]
    assert house.follow(operation)["status"] == "succeeded"
    assert sum(line.startswith(("vpc ", "eks ", "hyperpod ")) for line in house.ground.world()) == 3


def test_different_clusters_are_made_side_by_side_and_deleted_beside_a_creation(house: House) -> None:
    asked = _at_once(house, {"tag": "demo"}, {"tag": "other"})
    ended = [house.follow(answer["id"]) for _, answer in asked]
    assert [each["status"] for each in ended] == ["succeeded", "succeeded"], [each["problem"] for each in ended]
    world = house.ground.world()
    assert sum(line.startswith("hyperpod ") for line in world) == 2
    gone = _delete(house)
    _, third = _ask(house, "third")
    ended = [house.follow(each) for each in (gone, third["id"])]
    assert [each["status"] for each in ended] == ["succeeded", "succeeded"], [each["problem"] for each in ended]
    left = [line for line in house.ground.world() if "demo" in line]
    assert left == []
    assert {line.split()[1] for line in house.ground.world() if line.startswith("hyperpod ")} == {"hp-other", "hp-third"}


def test_a_deletion_waits_for_nobody_it_need_not_and_refuses_to_race_the_creation_of_its_own_cluster(house: House) -> None:
    _, begun = _ask(house, "demo")
    house.reaches(begun["id"], "stack", ended=False)
    house.plane.call("POST", f"/operations/{begun['id']}:cancel")
    assert house.until(begun["id"], lambda seen: seen["status"] == "cancelled")["status"] == "cancelled"
    with ThreadPoolExecutor(2) as pool:
        deletion = pool.submit(_delete, house)
        other = pool.submit(_ask, house, "other")
    ended = [house.follow(deletion.result()), house.follow(other.result()[1]["id"])]
    assert [each["status"] for each in ended] == ["succeeded", "succeeded"], [each["problem"] for each in ended]
    assert [line for line in house.ground.world() if "demo" in line] == []
