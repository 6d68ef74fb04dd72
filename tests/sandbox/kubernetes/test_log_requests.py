"""Reading logs: tails, sizes, times, following, and the refusals before a container has run."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx2
import pytest

from .conftest import World
from .objects import PODS, pod

MERGE = {"Content-Type": "application/merge-patch+json"}


def stamped(count: int, first: int = 0) -> str:
    return "".join(f"2026-11-30T12:00:{i:02}.000000000Z line {i}\n" for i in range(first, first + count))


def state(http: httpx2.Client, **value: object) -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "i", "imageID": "", "state": value}],
    }
    assert http.patch(f"{PODS}/a/status", json={"status": status}, headers=MERGE).status_code == 200


@pytest.fixture
def log(world: World, http: httpx2.Client) -> Path:
    http.post(PODS, json=pod(nodeName="n1"))
    state(http, running={"startedAt": "2026-11-30T12:00:00Z"})
    path = world.cluster.log_path("default", "a", "c")
    path.parent.mkdir(parents=True)
    path.write_text(stamped(30))
    return path


def text(http: httpx2.Client, **query: str) -> str:
    answer = http.get(f"{PODS}/a/log", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain"
    return answer.text


def test_the_whole_log_without_stamps(http: httpx2.Client, log: Path) -> None:
    assert text(http) == "".join(f"line {i}\n" for i in range(30))
    assert text(http, timestamps="true", tailLines="1") == "2026-11-30T12:00:29.000000000Z line 29\n"


@pytest.mark.parametrize(("lines", "first"), [("0", 30), ("1", 29), ("5", 25), ("30", 0), ("99", 0)])
def test_tails(http: httpx2.Client, log: Path, lines: str, first: int) -> None:
    assert text(http, tailLines=lines) == "".join(f"line {i}\n" for i in range(first, 30))


def test_limits_and_times(http: httpx2.Client, log: Path) -> None:
    assert text(http, limitBytes="10") == "line 0\nlin"
    assert text(http, sinceTime="2026-11-30T12:00:27Z") == "line 27\nline 28\nline 29\n"
    answer = http.get(f"{PODS}/a/log", params={"tailLines": "-1"})
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


def test_a_long_log_is_read_from_its_end(http: httpx2.Client, log: Path) -> None:
    with log.open("w") as out:
        out.writelines(f"2026-11-30T12:00:00.000000000Z {'x' * 90} {i}\n" for i in range(20_000))
    assert text(http, tailLines="2").split()[1::2] == ["19998", "19999"]
    assert text(http).count("\n") == 20_000


def test_a_carriage_return_ends_no_line(http: httpx2.Client, log: Path) -> None:
    log.write_text(stamped(2) + "2026-11-30T12:00:02.000000000Z \r 50%\r100%\n" + stamped(1, 3))
    told = text(http, timestamps="true", sinceTime="2026-11-30T12:00:02Z")
    assert told.split("\n")[:-1] == ["2026-11-30T12:00:02.000000000Z \r 50%\r100%", "2026-11-30T12:00:03.000000000Z line 3"]


def test_following_ends_with_the_container(world: World, http: httpx2.Client, log: Path) -> None:
    def later() -> None:
        with world.http() as other:
            time.sleep(0.3)
            with log.open("a") as out:
                out.write(stamped(2, 30))
            time.sleep(0.3)
            state(other, terminated={"exitCode": 0})

    thread = threading.Thread(target=later)
    thread.start()
    with http.stream("GET", f"{PODS}/a/log", params={"follow": "true", "tailLines": "1"}) as answer:
        lines = list(answer.iter_lines())
    thread.join()
    assert lines == ["line 29", "line 30", "line 31"]


def test_refusals(http: httpx2.Client, log: Path) -> None:
    assert http.get(f"{PODS}/none/log").status_code == 404
    wrong = http.get(f"{PODS}/a/log", params={"container": "x"}).json()
    assert (wrong["code"], wrong["message"]) == (400, "container x is not valid for pod a")
    previous = http.get(f"{PODS}/a/log", params={"previous": "true"}).json()
    assert previous["message"] == 'previous terminated container "c" in pod "a" not found'
    state(http, waiting={"reason": "ContainerCreating"}, running=None)
    waiting = http.get(f"{PODS}/a/log").json()
    assert (waiting["code"], waiting["message"]) == (400, 'container "c" in pod "a" is waiting to start: ContainerCreating')
    two = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
    http.post(PODS, json=pod("b", containers=two))
    assert http.get(f"{PODS}/b/log").json()["message"] == "a container name must be specified for pod b, choose one of: [c d]"
    nowhere = http.get(f"{PODS}/b/log", params={"container": "c"})
    assert (nowhere.status_code, nowhere.content) == (204, b"")
