"""The recovery budget of a job: what is left of it, and what a fault leads to. Pure functions.

A fault leads to a standard restart (the processes start again in their containers; pods of a faulty node are replaced) until
``numRestartBeforeFullJobRestart`` of them have happened since the last full one, then to a full job restart (all pods are made anew)
until ``maxFullJobRestarts`` in the evaluation period, then to the end. ``jobMaxRetryCount`` bounds all restarts together. What is not
given does not bound. Windows of ``evalPeriodSeconds`` are counted from the job's start; a new one begins with clean counters.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..loops.objects import Object, seconds_of, spec_of, status_of

PROCESS, FULL, END = "PLR", "JLR", "end"


@dataclass(frozen=True)
class Verdict:
    """``kind`` is PROCESS, FULL or END; ``why`` tells an end; ``status`` are the counters after the restart."""

    kind: str
    status: Object
    why: str = ""


def run_policy(job: Object) -> Object:
    """``spec.runPolicy``."""
    found: Object = spec_of(job).get("runPolicy") or {}
    return found


def counters(job: Object, now: float) -> Object:
    """``restartStatus`` as it stands in the present window."""
    policy = run_policy(job).get("restartPolicy") or {}
    period = float(policy.get("evalPeriodSeconds") or 0)
    started = seconds_of(status_of(job).get("startTime")) or now
    window = int((now - started) // period) if period > 0 else 0
    have = status_of(job).get("restartStatus") or {}
    if have and int(have.get("currentEvalPeriod") or 0) == window:
        return dict(have)
    return {"currentEvalPeriod": window, "fullJobRestartCount": 0, "restartCount": 0}


def judge(job: Object, now: float) -> Verdict:
    """What one more fault leads to."""
    policy, total = run_policy(job), int(status_of(job).get("restartCount") or 0)
    limits, have = policy.get("restartPolicy") or {}, counters(job, now)
    most, standard, full = policy.get("jobMaxRetryCount"), limits.get("numRestartBeforeFullJobRestart"), limits.get("maxFullJobRestarts")
    if most is not None and total >= int(most):
        return Verdict(END, {}, f"Job has reached the maximum number of restarts: jobMaxRetryCount is {most}")
    if standard is None or have["restartCount"] < int(standard):
        return Verdict(PROCESS, {"restartCount": total + 1, "restartStatus": {**have, "restartCount": have["restartCount"] + 1}})
    if full is not None and have["fullJobRestartCount"] >= int(full):
        period = limits.get("evalPeriodSeconds")
        told = f"{standard} standard restarts and {full} full job restarts have been used within {period} seconds"
        return Verdict(END, {}, f"Job has reached its restart limit: {told}")
    after = {**have, "fullJobRestartCount": have["fullJobRestartCount"] + 1, "restartCount": 0}
    return Verdict(FULL, {"restartCount": total + 1, "restartStatus": after})
