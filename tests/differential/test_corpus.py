"""(a) The corpus: the same steps on the sandbox and on a real server, compared field by field.

Where there is no real server, its recorded answers stand for it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import pytest
from tests.differential import recordings
from tests.differential.corpus import Run, Scenario, scenarios
from tests.differential.normalising import differences
from tests.differential.sides import NO_REFERENCE, Side
from tests.differential.tolerance import Tolerated, tolerated

SCENARIOS = scenarios()


@dataclass(frozen=True)
class Difference:
    """One place where the sides differ."""

    where: str
    request: str
    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where} {self.request}\n    {self.path}\n      real: {_shown(self.real)}\n      ours: {_shown(self.ours)}"


class Comparison:
    """Both sides' answers to each scenario, asked once, and the differences that nothing excuses."""

    def __init__(self, ours: Side, real: Side | None) -> None:
        self.ours, self.real, self.allowed = ours, real, tolerated()
        self._found: dict[str, list[Difference]] = {}

    def of(self, scenario: Scenario) -> list[Difference]:
        """All differences of a scenario, excused ones left out."""
        if scenario.title not in self._found:
            self._found[scenario.title] = self._compare(scenario)
        return self._found[scenario.title]

    def _compare(self, scenario: Scenario) -> list[Difference]:
        expected = self._expected(scenario)
        given = play(self.ours, scenario)
        found = []
        for number, (step, real, ours) in enumerate(zip(scenario.steps, expected, given, strict=True), start=1):
            where = f"{scenario.title}#{number}"
            if "not_emulated" in step:
                continue
            for path, wanted, got in differences(real, ours):
                if not self._excused(where, path):
                    found.append(Difference(where, step["do"], path, wanted, got))
        return found

    def _expected(self, scenario: Scenario) -> list[Any]:
        if self.real is not None:
            answers = play(self.real, scenario)
            if recordings.WANTED:
                recordings.record(scenario.file, scenario.name, answers)
            return answers
        answers_then = recordings.recorded(scenario.file, scenario.name)
        if answers_then is None:
            pytest.skip(f"{NO_REFERENCE}; and this scenario was never recorded")
        return answers_then

    def _excused(self, where: str, path: str) -> bool:
        """Every entry is asked, so that each one that excuses something counts as used."""
        return sum(entry.covers(where, path) for entry in self.allowed) > 0

    def unused(self) -> list[Tolerated]:
        """Entries of the list that excused nothing."""
        return [entry for entry in self.allowed if not entry.used]


def play(side: Side, scenario: Scenario) -> list[Any]:
    """One side's answers."""
    word = "z" + secrets.token_hex(4)
    with side.client() as client:
        return Run(client, {"ns": f"ns-{word}", "word": word}).play(scenario)


def _shown(value: Any) -> str:
    return "(absent)" if value is ... else repr(value)


@pytest.fixture(scope="module")
def comparison(ours: Side, maybe_real: Side | None) -> Comparison:
    return Comparison(ours, maybe_real)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.title)
def test_the_sandbox_answers_as_the_real_server(comparison: Comparison, scenario: Scenario) -> None:
    found = comparison.of(scenario)
    assert not found, "\n" + "\n".join(map(str, found))


def test_every_tolerated_difference_is_still_there(comparison: Comparison) -> None:
    """An entry that excuses nothing is taken off the list."""
    for scenario in SCENARIOS:
        comparison.of(scenario)
    assert comparison.unused() == []


def test_what_is_not_emulated_is_said_and_does_not_grow() -> None:
    """Steps whose answer the sandbox does not even try to give: none."""
    reasons = [step["not_emulated"] for scenario in SCENARIOS for step in scenario.steps if "not_emulated" in step]
    assert reasons == []


def test_tolerated_differences_never_touch_codes_or_reasons(comparison: Comparison) -> None:
    """What a program decides by is equal, without exception."""
    for entry in comparison.allowed:
        assert entry.reason
        for place in ("code", "body.code", "body.reason", "reason"):
            assert not Tolerated("*", entry.path, "probe").covers("", place), entry
