"""Why a training job does not run, or why it ended: its own words, its pods', its queue's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instantstart.ensure.running import pending_reads
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site
from instantstart.ensure.training import job_states
from instantstart.ensure.training.job_states import State


def why_not(room: Any, where: Site, job: dict[str, Any], pods: Sequence[dict[str, Any]], state: State) -> Why | None:
    """The reason; None while it runs or when it succeeded. ``room`` is the Room of capabilities/room.py."""
    if state.status in ("running", "succeeded", "ending"):
        return None
    own = job_states.own_words(state)
    if own is not None and state.status == "failed" and not pods:
        return job_states.without_pods(own) if job["kind"] == "HyperPodPyTorchJob" else own
    told = pending_reads.explain(room, where, job, pods)
    if own is None:
        return told or job_states.stuck(job, pods, state)
    later = told is None or (state.status == "failed" and told.kind in ("starting", "waiting"))
    return own if told is None or later else _joined(own, told)


def _joined(own: Why, told: Why) -> Why:
    """The job's own words, and what its pods say: one sentence after the other."""
    return Why(told.code, told.kind, f"{own.text} {told.text}", {**own.evidence, **told.evidence}, told.next_step)
