"""How the engine takes a Problem that a stage raises: look again, ask a person, or give up. Pure."""

from __future__ import annotations

from enum import StrEnum

from instantstart.base import problems
from instantstart.base.outcome import Wait

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0

#: passing weather: looked at again within the stage's deadline
PASSING = (problems.NoCapacity, problems.Busy, problems.Unreachable)
#: a person can mend it while the operation keeps its place
FOR_A_PERSON = (problems.OutOfQuota, problems.Blocked, problems.Denied, problems.Unauthenticated)


class Reaction(StrEnum):
    """What follows a Problem."""

    again = "again"
    block = "block"
    fail = "fail"


def reaction_to(problem: problems.Problem) -> Reaction:
    """What to do about ``problem``, by its kind."""
    if isinstance(problem, PASSING):
        return Reaction.again
    return Reaction.block if isinstance(problem, FOR_A_PERSON) else Reaction.fail


def pause_seconds(misses: int, problem: problems.Problem) -> float:
    """Seconds of the world before the next look, after ``misses`` (1, 2, ...) bad ones in a row: 5, 10, 20, 40, 60, 60...

    A Busy that says when to come back is not asked earlier.
    """
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (min(misses, 10) - 1), LONGEST_PAUSE_SECONDS)
    return max(pause, float(problem.retry_after_seconds)) if isinstance(problem, problems.Busy) else pause


def last_word(stage: str, within_seconds: float, wait: Wait) -> problems.Problem:
    """The Problem of a wait whose deadline has passed: its own, else that it took too long."""
    if wait.overdue is not None:
        try:
            return wait.overdue()
        except problems.Problem as problem:  # what it wanted to look at could not be read: say what was known
            return overdue(stage, within_seconds, f"{wait.because} ({problem.detail})")
    return overdue(stage, within_seconds, wait.because)


def overdue(stage: str, within_seconds: float, because: str | None) -> problems.Blocked:
    """The Problem of a stage whose deadline has passed. It waited too long, which is not the same as having failed."""
    last = f" Last seen: {because}" if because else ""
    return problems.Blocked(
        "operation.stage_overdue",
        f"Stage {stage} has not come true within {within_seconds:g} seconds.{last}",
        hint="Look at the reason; retry the operation to go on waiting with a fresh deadline, or cancel it.",
        evidence={"stage": stage, "within_seconds": within_seconds},
    )


def crashed(stage: str, error: Exception) -> problems.Broken:
    """The Problem of a stage that raised something else than a Problem: our own fault."""
    return problems.Broken(
        "operation.stage_crashed",
        f"Stage {stage} stopped on an error of the program itself ({type(error).__name__}).",
        hint="Retry the operation; if it happens again, report it with the log lines of this operation.",
        evidence={"stage": stage, "exception": type(error).__name__, "text": str(error)[:500]},
    )


def next_step(status: str, problem: problems.Problem | None) -> str | None:
    """What a person does about an operation that stands at ``status``. None: nothing."""
    if status == "awaiting_approval":
        return "A person approves or rejects it."
    if status == "cancelled":
        return problem.hint if problem is not None else None
    if status not in ("blocked", "failed"):
        return None
    advice = problem.hint if problem is not None and problem.hint else "Mend the cause"
    if "retry" in advice.lower():
        return advice
    if isinstance(problem, problems.Invalid):  # what was asked may itself be wrong, and a retry asks the same
        return f"{advice.rstrip('.')}. Then retry the operation, or ask anew with other values."
    return f"{advice.rstrip('.')}. Then retry the operation; it goes on where it stopped."
