"""Which of the slow runs are today's: a share that fits the time that is left, another one each day, until everything was run.

All runs stand in one circle, in an order that has nothing to do with their names, each as long as it usually takes. Each turn (a day,
or ``INSTANTSTART_WEATHER_TURN``) takes the next ``INSTANTSTART_WEATHER_MINUTES`` of the circle. ``INSTANTSTART_WEATHER=all`` takes all,
which is hours; so does naming tests, or ``-k``.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence

EVERYTHING = os.environ.get("INSTANTSTART_WEATHER") == "all"
MINUTES = float(os.environ.get("INSTANTSTART_WEATHER_MINUTES") or 20)
TURN = int(os.environ.get("INSTANTSTART_WEATHER_TURN") or time.time() // 86_400)
#: the main job and its end
MAIN, END = "cluster.create", "cluster.delete"
#: short enough to be killed at each change each day
SHORT = "cluster.connect"
#: what a run usually takes with what it needs before it, on two cores with nothing else on them (seconds)
_TYPICAL = {
    "test_weather.py": 45.0,
    "test_crashes.py": 75.0,
    "test_partial.py": 25.0,
    "test_process.py": 100.0,
    "test_clients.py": 80.0,
    "test_disk.py": 40.0,
    "test_wishes.py": 45.0,
}


def seconds(test: str) -> float:
    """What a run usually takes. ``test`` is its id: ``tests/weather/test_crashes.py::...``."""
    file = test.partition("::")[0].rpartition("/")[2]
    return _TYPICAL[file] * (2 if "[journey-" in test else 1)


def share(tests: Sequence[str], turn: int, minutes: float) -> set[str]:
    """Those of a turn: the next part of the circle. After ``turns`` turns in a row each has had its own."""
    turn_of = _circle(tests, minutes)
    wanted = turn % turns(tests, minutes)
    return {test for test, own in turn_of.items() if own == wanted}


def one(tests: Sequence[str], turn: int) -> set[str]:
    """One of them: each has its turn."""
    return {sorted(tests)[turn % len(tests)]} if tests else set()


def turns(tests: Sequence[str], minutes: float) -> int:
    """After how many turns everything was run."""
    return max(_circle(tests, minutes).values(), default=0) + 1


def _circle(tests: Sequence[str], minutes: float) -> dict[str, int]:
    """The turn of each."""
    found: dict[str, int] = {}
    at = 0.0
    for test in sorted(tests, key=lambda each: hashlib.sha256(each.encode()).digest()):
        found[test] = int(at // (minutes * 60))
        at += seconds(test)
    return {test: sorted(set(found.values())).index(own) for test, own in found.items()}
