"""Being slow, broken or out of memory on request.

A text of ``key=value`` words, with ``;`` or blanks between them, in the pod's annotation ``sandbox.instantstart.dev/serving`` (from its
start on), in the body of ``POST /_sandbox/serving`` (from now on), or in the header ``x-sandbox-serving`` (for one request):

    load=<s>      loading takes so many virtual seconds
    delay=<s>     virtual seconds before the first token
    token=<s>     virtual seconds for each token
    fail=<share>  that share of the requests is answered with ``status`` (default 500), evenly spread
    status=<code> alone: every request
    oom=<n>       the n-th request from now on is the process's last: it is killed for its memory
    unhealthy=1   /health says 503
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

SERVING = "INSTANTSTART_SANDBOX_SERVING"
HEADER = "x-sandbox-serving"
#: Left in the container's folder by a process that ends for its memory: the kubelet calls such an end OOMKilled.
OOM_MARK = "oom-killed"
_WORD = re.compile(r"([a-z]+)=([0-9.]+)")


@dataclass
class Spoiling:
    """What is asked; 0 is nothing."""

    load: float = 0.0
    delay: float = 0.0
    token: float = 0.0
    fail: float = 0.0
    status: float = 0.0
    oom: float = 0.0
    unhealthy: float = 0.0

    @property
    def paced(self) -> bool:
        """Whether the pace is somebody's wish, so that it is kept however long it takes."""
        return bool(self.delay or self.token)

    def code(self, turn: int) -> int:
        """The status with which the ``turn``-th request is refused; 0: it is answered."""
        share = self.fail or (1.0 if self.status else 0.0)
        refused = int((turn + 1) * share) > int(turn * share)
        return int(self.status or 500) if refused else 0


def read(text: str) -> Spoiling:
    """The wish in a text. ValueError for a word that is none."""
    words = [w for w in re.split(r"[;,\s]+", text.strip()) if w]
    names = {f.name for f in fields(Spoiling)}
    found: dict[str, float] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None or match[1] not in names:
            raise ValueError(f"{word!r} is not one of {', '.join(f'{n}=<number>' for n in sorted(names))}")
        found[match[1]] = float(match[2])
    return Spoiling(**found)
