"""What goes before a container's end: its preStop hook, and real time enough for a process to obey."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ..loops.objects import Object, spec_of

if TYPE_CHECKING:
    from .runtime import Run

#: A process that was asked to stop has at least so many real seconds, however fast the clock runs; a short grace is meant as it is.
_LEAST_REAL_SECONDS, _SHORT_GRACE_SECONDS = 1.5, 10.0
_SLEEP = re.compile(r"(?:^|[\s;&|/])sleep\s+(\d+(?:\.\d+)?)")


def pre_stop_seconds(pod: Object, name: str) -> float:
    """How long a container's preStop hook takes: its sleep, or the sleep in its command. What else a command does is not done."""
    container: Object = next((c for c in spec_of(pod)["containers"] if c["name"] == name), {})
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    found = _SLEEP.search(" ".join(map(str, (hook.get("exec") or {}).get("command") or [])))
    return float(found[1]) if found else 0.0


def may_kill(run: Run, grace: float) -> bool:
    """Whether a process has had its chance to end by itself."""
    if run.process is None or grace < _SHORT_GRACE_SECONDS or run.real_stopping is None:
        return True
    return time.monotonic() - run.real_stopping >= _LEAST_REAL_SECONDS
