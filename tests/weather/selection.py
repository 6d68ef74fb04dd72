"""How much of the enumeration is run: each day a little, with the slow tests what represents every slice, on request everything.

``INSTANTSTART_WEATHER=all`` is on request: every workflow at every point and in every weather, which takes hours.
"""

from __future__ import annotations

import os

from tests.weather.scenarios import SCENARIOS, Scenario, scenario

EVERYTHING = os.environ.get("INSTANTSTART_WEATHER") == "all"
#: the main job and its end: enumerated at every point with the slow tests
MAIN, END = "cluster.create", "cluster.delete"
#: short enough to be killed at each change each day
SHORT = "cluster.connect"


def representatives() -> tuple[Scenario, ...]:
    """Every workflow when everything is asked for; else the main job, its end, and of each slice the workflow with most stages."""
    if EVERYTHING:
        return SCENARIOS
    chosen: dict[str, Scenario] = {}
    for each in SCENARIOS:
        where = _slice_of(each)
        if where not in chosen or len(each.declared.stages()) > len(chosen[where].declared.stages()):
            chosen[where] = each
    wanted = {MAIN, END, SHORT, *(each.workflow for each in chosen.values())}
    return tuple(each for each in SCENARIOS if each.workflow in wanted)


def mains() -> tuple[Scenario, ...]:
    """Every workflow when everything is asked for; else the main job and its end."""
    return SCENARIOS if EVERYTHING else (scenario(MAIN), scenario(END))


def _slice_of(each: Scenario) -> str:
    """The module of its first stage's function: a slice's stages.py."""
    return each.declared.spec.__module__.rpartition(".")[0]
