"""Log monitoring rules of a job, evaluated line by line. Nothing here touches a file or a clock.

A rule is HANGING when its pattern has not matched ``expectedStartCutOffInSeconds`` after the start, or again
``expectedRecurringFrequencyInSeconds`` after the last match; SLOW when the number that its group captures compares true to
``metricThreshold`` ``metricEvaluationDataPoints`` times running; a fault on the first match with ``faultOnMatch``. A captured text
that is no number counts as no match. After a line that matches ``stopPattern`` the rule is asleep.
A match in any pod counts for the job: one rank alone may print the loss.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ..loops.objects import Object

HANGING, SLOW, FAULT = "LogStateHanging", "LogStateSlow", "LogStateFault"
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "eq": operator.eq,
}


@dataclass(frozen=True)
class Finding:
    """A rule that says the job is in trouble; ``reason`` is ``LogStateHanging_<rule>`` and its like."""

    reason: str
    message: str


@dataclass
class Rule:
    """One rule and what it has seen since ``began``, a virtual moment."""

    spec: Object
    began: float
    matched: float | None = None
    above: int = 0
    asleep: bool = False
    faulted: bool = False
    _pattern: re.Pattern[str] = field(init=False)
    _stop: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        self._pattern = re.compile(self.spec["logPattern"])
        stop = self.spec.get("stopPattern")
        self._stop = re.compile(stop) if stop else None

    def line(self, moment: float, text: str) -> None:
        """Take one line of a log in."""
        if self.asleep:
            return
        found = self._pattern.search(text)
        value = _number(found)
        if found is not None and (value is not None or not self._measures()):
            self.matched = max(moment, self.matched or 0.0)
            self.faulted = self.faulted or bool(self.spec.get("faultOnMatch"))
            self._measure(value)
        if self._stop is not None and self._stop.search(text):
            self.asleep = True

    def _measures(self) -> bool:
        return self._pattern.groups > 0

    def _measure(self, value: float | None) -> None:
        threshold, sign = self.spec.get("metricThreshold"), _OPERATORS.get(str(self.spec.get("operator")))
        if value is None or threshold is None or sign is None:
            return
        self.above = self.above + 1 if sign(value, float(threshold)) else 0

    def finding(self, now: float) -> Finding | None:
        """The trouble that the rule sees now."""
        name = self.spec["name"]
        if self.faulted:
            return Finding(f"{FAULT}_{name}", f"A line matched the pattern of rule {name}")
        if self.asleep:
            return None
        if self.above >= int(self.spec.get("metricEvaluationDataPoints") or 1):
            wanted = f"{self.spec['operator']} {self.spec['metricThreshold']}"
            return Finding(f"{SLOW}_{name}", f"Rule {name}: {self.above} values in a row were {wanted}")
        due = self.due()
        if due is None or now < due:
            return None
        if self.matched is None:
            text = f"no line matched within {self.spec['expectedStartCutOffInSeconds']} seconds of the start"
        else:
            text = f"no line matched for {self.spec['expectedRecurringFrequencyInSeconds']} seconds"
        return Finding(f"{HANGING}_{name}", f"Rule {name}: {text}")

    def due(self) -> float | None:
        """The moment at which the rule will be HANGING if nothing matches; None when it has no such limit now."""
        if self.asleep:
            return None
        cut, every = self.spec.get("expectedStartCutOffInSeconds"), self.spec.get("expectedRecurringFrequencyInSeconds")
        if self.matched is None:
            return self.began + float(cut) if cut is not None else None
        return self.matched + float(every) if every is not None else None


def _number(found: re.Match[str] | None) -> float | None:
    if found is None or not found.re.groups or found[1] is None:
        return None
    try:
        value = float(found[1])
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None


def faults(specs: list[Object]) -> list[str]:
    """What is wrong with the rules of a job; the operator refuses it then."""
    told = []
    for spec in specs:
        for name in ("logPattern", "stopPattern"):
            try:
                re.compile(spec.get(name) or "")
            except re.error as error:
                told.append(f"log monitoring rule {spec.get('name')}: {name} is not a regular expression: {error}")
    return told
