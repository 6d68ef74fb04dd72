"""Log rules: whether they can work, and what they would have said of a sample log. Pure.

Expressions are RE2's, as the operator's are (Go): no lookaround, no back references, and time linear in the text, so that a person's
expression on a person's text can be tried here without harm.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from instantstart.base.problems import Violation
from instantstart.capabilities.training.jobs.specs import LogRule, TryLogRules

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "eq": operator.eq,
}
_WORDS = {"gt": "above", "gteq": "at or above", "lt": "below", "lteq": "at or below", "eq": "equal to"}
_MOST_MEMORY = 8 << 20
_SHOWN_LINES, _SHOWN_VALUES, _LONGEST_LINE = 20, 200, 500


@dataclass(frozen=True)
class MatchedLine:
    """A line that a rule's expression fits; ``value`` is the number that its group captured."""

    number: int
    untrusted_text: str
    value: float | None


@dataclass(frozen=True)
class RuleTrial:
    """What a rule makes of the sample: which lines it fits, where it would call the job slow or hanging, and what is odd about it."""

    name: str
    matches: int
    lines: tuple[MatchedLine, ...]
    values: tuple[float, ...]
    stopped_at: int | None
    verdicts: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class TrialResult:
    """All rules on one sample."""

    lines: int
    rules: tuple[RuleTrial, ...]


def wrong_rules(rules: Sequence[LogRule], at: str = "/log_rules") -> list[Violation]:
    """Everything that keeps rules from working, each at its own pointer."""
    found: list[Violation] = []
    names = [rule.name for rule in rules]
    for index, rule in enumerate(rules):
        here = f"{at}/{index}"
        if rule.name in names[:index]:
            found.append(Violation(f"{here}/name", f"Two rules are called {rule.name}."))
        found += _wrong_pattern(f"{here}/pattern", rule.pattern, 1)
        if rule.stop_pattern is not None:
            found += _wrong_pattern(f"{here}/stop_pattern", rule.stop_pattern, None)
        found += _wrong_purpose(here, rule)
    return found


def try_rules(ask: TryLogRules) -> TrialResult:
    """Each rule on the sample, line by line, as the operator does it. The rules must be right (``wrong_rules``)."""
    lines = ask.text.splitlines()
    return TrialResult(len(lines), tuple(_try_rule(rule, lines, ask.seconds_per_line) for rule in ask.rules))


def _wrong_pattern(at: str, pattern: str, most_groups: int | None) -> list[Violation]:
    try:
        compiled = _compiled(pattern)
    except re2.error as error:
        told = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        hint = " RE2 has no lookaround and no back references." if "(?" in told or "\\" in told else ""
        return [Violation(at, f"is no expression that the operator can use: {told}.{hint}")]
    if most_groups is not None and compiled.groups > most_groups:
        return [Violation(at, f"has {compiled.groups} groups; the operator takes one, which captures a number. Write others as (?:...).")]
    return []


def _wrong_purpose(here: str, rule: LogRule) -> list[Violation]:
    measures = rule.threshold is not None or rule.comparison is not None
    found = []
    if rule.start_within_seconds is None and rule.repeat_within_seconds is None and not measures:
        told = "would never say anything: give start_within_seconds, repeat_within_seconds, or threshold with comparison."
        found.append(Violation(here, f"The rule {rule.name} {told}"))
    if measures and (rule.threshold is None or rule.comparison is None):
        missing = "threshold" if rule.threshold is None else "comparison"
        found.append(Violation(f"{here}/{missing}", "threshold and comparison belong together."))
    if rule.data_points is not None and not measures:
        found.append(Violation(f"{here}/data_points", "counts measurements: it needs threshold and comparison."))
    if measures and not _groups(rule.pattern):
        found.append(Violation(f"{here}/pattern", "needs one group that captures the number, such as loss=([0-9.]+)."))
    return found


def _groups(pattern: str) -> int:
    try:
        return int(_compiled(pattern).groups)
    except re2.error:
        return 1  # told already


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    return re2.compile(pattern, options)


def _try_rule(rule: LogRule, lines: Sequence[str], seconds: float | None) -> RuleTrial:
    matched, stopped_at = _matches(rule, lines)
    values = tuple(m.value for m in matched if m.value is not None)
    verdicts = [*_slow(rule, matched), *(_hanging(rule, matched, stopped_at or len(lines), seconds) if seconds else ())]
    return RuleTrial(
        rule.name, len(matched), tuple(matched[:_SHOWN_LINES]), values[:_SHOWN_VALUES], stopped_at, tuple(verdicts),
        (*_remarks(rule, lines, matched, stopped_at), *_outcome(rule, verdicts, seconds)),
    )  # fmt: skip


def _outcome(rule: LogRule, verdicts: Sequence[str], seconds: float | None) -> list[str]:
    """What silence means: that all was well, or that times were not looked at."""
    if seconds is None and (rule.start_within_seconds is not None or rule.repeat_within_seconds is not None):
        return ["Times were not judged: say how many seconds pass between two lines (seconds_per_line)."]
    return [] if verdicts else ["It would let the job of this log go on."]


def _matches(rule: LogRule, lines: Sequence[str]) -> tuple[list[MatchedLine], int | None]:
    pattern, stop = _compiled(rule.pattern), _compiled(rule.stop_pattern) if rule.stop_pattern else None
    found = []
    for number, line in enumerate(lines, start=1):
        hit = pattern.search(line)
        value = _number(hit.group(1)) if hit is not None and pattern.groups else None
        if hit is not None and (value is not None or not pattern.groups):
            found.append(MatchedLine(number, line[:_LONGEST_LINE], value))
        if stop is not None and stop.search(line) is not None:
            return found, number
    return found, None


def _number(text: str | None) -> float | None:
    try:
        value = None if text is None else float(text)
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _slow(rule: LogRule, matched: Sequence[MatchedLine]) -> list[str]:
    if rule.threshold is None or rule.comparison is None:
        return []
    compare, needed, row = _COMPARE[rule.comparison], rule.data_points or 1, 0
    for each in matched:
        row = row + 1 if each.value is not None and compare(each.value, rule.threshold) else 0
        if row >= needed:
            times = f", and so were the {needed} values in a row up to it" if needed > 1 else ""
            return [f"Slow from line {each.number} on: {each.value:g} is {_WORDS[rule.comparison]} {rule.threshold}{times}."]
    return []


def _hanging(rule: LogRule, matched: Sequence[MatchedLine], end: int, seconds: float) -> list[str]:
    """``end``: the last line that is looked at."""
    if rule.start_within_seconds is not None:
        late = matched[0].number if matched else end
        if late * seconds > rule.start_within_seconds:
            first = f"the first line that fits is {late}, after {late * seconds:g} s" if matched else "no line fits"
            return [f"Hanging {rule.start_within_seconds} s after the start: {first}."]
    if rule.repeat_within_seconds is not None and matched:
        numbers = [each.number for each in matched]
        for before, after in zip(numbers, [*numbers[1:], None], strict=True):
            pause = ((end if after is None else after) - before) * seconds
            if pause > rule.repeat_within_seconds:
                then = (
                    f"no other line fits in the {pause:g} s to the end" if after is None else f"line {after} fits next, {pause:g} s later"
                )
                return [f"Hanging {rule.repeat_within_seconds} s after line {before}: {then}."]
    return []


def _remarks(rule: LogRule, lines: Sequence[str], matched: Sequence[MatchedLine], stopped_at: int | None) -> list[str]:
    found = []
    waits = rule.start_within_seconds is not None or rule.repeat_within_seconds is not None
    if not matched:
        then = ", and calls the job hanging, since it waits for such a line" if rule.start_within_seconds is not None else ""
        found.append(f"No line fits: of such a log the rule sees nothing{then}.")
    pattern = _compiled(rule.pattern)
    odd = next((n for n, line in enumerate(lines, start=1) if _captures_no_number(pattern, line)), None)
    if odd is not None:
        found.append(f"What the group captures at line {odd} is no number: such lines count as not fitting.")
    if waits and len(matched) == len(lines) > 1:
        found.append("Every line fits: any output counts as progress, also that of a job that does not come on.")
    if stopped_at is not None:
        found.append(f"It looks no further than line {stopped_at}, where stop_pattern fits.")
    return found


def _captures_no_number(pattern: Any, line: str) -> bool:
    hit = pattern.search(line) if pattern.groups else None
    return hit is not None and _number(hit.group(1)) is None
