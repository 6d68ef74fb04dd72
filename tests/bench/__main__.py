"""``python -m tests.bench [--ahead] [NAME ...]``: figures and ratios beside their goals. Prints; fails only when it cannot measure.

``--ahead``: on a machine that others use, too, the measured processes go first (Linux, as root).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping

from tests.bench import agents, crowds, jobs, log_streams, processes, submissions
from tests.bench.rig import Rig, load

BENCHES: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "start": ("control plane ready (goal 3 s on an idle machine)", processes.start),
    "memory": ("control plane's resident memory after a whole pipeline (goal 180 MiB)", processes.memory),
    "pipeline": ("whole pipeline against the imposed critical path, at the default rate (goal 1.05)", lambda: jobs.pipeline(12)),
    "pipeline-fast": ("the same with more of the machine's own time in it", lambda: jobs.pipeline(30)),
    "reaction": ("remote end to next act, at the default rate (goal p95 5 s at 12 AWS calls a minute)", lambda: jobs.reaction(12)),
    "reaction-fast": ("the same with more of the machine's own time in it", lambda: jobs.reaction(30)),
    "catalogue": ("tools/list of the default set in o200k tokens (goal 5,000), and one conversation", agents.catalogue),
    "list": ("cluster list with 20 clusters", processes.listing),
    "fleet": ("fleet view at 10,000 nodes and 50,000 pods (goals p95 50 ms, 1.5 times 100 nodes, 700 MiB)", crowds.fleet),
    "reads": ("AWS calls of a full read of a 1,000-node cluster (goal 15)", crowds.reads),
    "load": ("sandbox's API server with 10,000 nodes, 50,000 pods and 50 watchers", crowds.load),
    "logs": ("200 containers to one reader: lines a CPU second against 200 kubectl logs -f (goal 3)", log_streams.logs),
    "submission": ("answers to submissions of training jobs (goal 300 ms)", submissions.submissions),
    "sandbox": ("sandbox calls a second", processes.calls),
}


def main(wanted: list[str]) -> int:
    """Run the named benches, or all. The exit status."""
    Rig.ahead = "--ahead" in wanted
    wanted = [name for name in wanted if name != "--ahead"]
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        _say(f"There is no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}.")
        return 2
    for name in wanted or BENCHES:
        title, measure = BENCHES[name]
        _say(f"\n{name}: {title}")
        began, before = time.monotonic(), load()
        for line in measure():
            _say(f"  {line}")
        _say(f"  [{before} before, {load()} after; {time.monotonic() - began:.0f} s]")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
