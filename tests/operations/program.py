"""A control plane with toy workflows, as a process of its own that tests may kill.

``python -m tests.operations.program '{"data": ..., "url": ..., "world": ..., "start": [[workflow, spec], ...], "linger": false}'``
Prints ``ready``, then the ids of what it started, then (unless it lingers) ends when nothing is active any more.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.operations import toys
from tests.operations.world import World

from instantstart import store
from instantstart.base import log, problems
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.operations.engine import Engine


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(asked: dict[str, Any]) -> int:
    log.configure("WARNING")
    settings = Settings(
        data_dir=Path(asked["data"]),
        database_url=asked.get("url"),
        replica_id=asked.get("replica", "one"),
        workers=asked.get("workers", 16),
    )
    opened = store.open(settings.database_url, settings.data_dir)
    engine = Engine(opened, Clock(asked.get("rate", 1.0)), settings, toys.ALL)
    engine.bind(toys.Room(World(Path(asked["world"]))))
    try:
        engine.launch()
    except problems.Problem as problem:
        _say(refused=problem.document())
        return 3
    _say(ready=True)
    if asked.get("go"):
        while not Path(asked["go"]).exists():
            time.sleep(0.001)
    for workflow, spec in asked.get("start", ()):
        try:
            operation, created = engine.start(workflow, spec, caller=asked.get("caller", "id-toy"))
            _say(id=operation.id, created=created)
        except problems.Problem as problem:
            _say(problem=problem.document())
    while asked.get("linger") or opened.operations.list_active(["queued", "running", "waiting"]):
        time.sleep(0.05)
    engine.shutdown()
    opened.close()
    _say(ended=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
