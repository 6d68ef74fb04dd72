"""The real control plane on a ground: asked through its own door, killed from outside at known moments, started again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters.processes import ControlPlane
from tests.weather.ground import Ground
from tests.weather.profiles import CHANGES, KUBERNETES_CHANGES
from tests.weather.scenarios import Scenario

from instantstart import store

#: long enough for the slowest workflow on a loaded machine (real seconds)
PATIENCE_SECONDS = 400.0
_LOOK_SECONDS = 0.03
#: a plan that AWS is too busy for is asked for again, as a person would
BUSY, _PLAN_TRIES = 503, 10
RESTING = ("succeeded", "failed", "cancelled", "blocked")
#: standing blocked for this is the engine's own caution after so many kills; a person retries
RESTARTED = "operation.restarted_too_often"


@dataclass(frozen=True)
class Strike:
    """A call at which the process was killed, and the stages that were going on."""

    call: str
    stages: str


@dataclass(frozen=True)
class Wish:
    """A request: what a client would send."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: Any


def operation_of(answer: Any) -> str:
    """The operation that an answer tells of; empty: none, since all is so already."""
    told = answer if "id" in answer else next(iter(answer.get("operations") or [{}]))
    return str(told.get("id", ""))


class House:
    """One control plane, with a data folder of its own, on a ground."""

    def __init__(self, folder: Path, ground: Ground, settings: Mapping[str, str] | None = None) -> None:
        self.ground, self.settings = ground, dict(settings or {})
        self.plane, self._beside = ControlPlane(folder, ground.sandbox, self.settings), ""

    def start(self) -> None:
        """Start it, with the clusters registered that the ground's rooms know."""
        rows = self.ground.room.store.clusters.list()
        opened = store.open(self.settings.get("INSTANTSTART_DATABASE_URL"), self.plane.folder / "data")
        for row in rows:
            opened.clusters.upsert(row)
        opened.close()
        self.plane.start()

    def ask(self, what: Scenario) -> str:
        """Ask for a workflow through its route; the operation's id. A destructive one is planned first, for its approval."""
        status, answer = self.send(self.wish(what))
        assert status < 300, answer
        return operation_of(answer)

    def wish(self, what: Scenario, **otherwise: Any) -> Wish:
        """A workflow as its route takes it, not sent yet. ``otherwise``: fields of its body that say something else."""
        beside = self.begin_beside(what)
        method, path, query, body = _request(self.plane.document(), what, self.ground)
        return Wish(method, path.replace("{operation_id}", beside), query, {**body, **otherwise} if otherwise else body)

    def send(self, wish: Wish) -> tuple[int, Any]:
        """Status and document of the answer. A destructive wish is planned first, for its approval; what the plan refuses is the answer."""
        query = dict(wish.query)
        if query.pop("approval", None) is not None:
            for _ in range(_PLAN_TRIES):
                status, plan = self.plane.answer(wish.method, wish.path, wish.body, **query, dry_run=True)
                if status != BUSY:
                    break
            if status >= 300:
                return status, plan
            query |= {"approval": plan["approval"]} if plan.get("approval") else {}
        return self.plane.answer(wish.method, wish.path, wish.body, **query)

    def begin_beside(self, what: Scenario) -> str:
        """What goes on beside a workflow, asked for once; its operation's id. Empty: nothing does."""
        if what.beside is not None and not self._beside:
            if what.beside.before is not None:
                what.beside.before(self.ground)
            self._beside = self.ask(what.beside)
            self.reaches(self._beside, what.beside.declared.stages()[-1].name, ended=False)
        return self._beside

    def follow(self, operation: str, reasons: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The operation at rest; when the engine has grown cautious after many kills, or for one of ``reasons``, a person retries."""
        while True:
            seen = self.until(operation, lambda seen: seen["status"] in RESTING)
            if seen["status"] != "blocked" or seen["problem"]["code"] not in {RESTARTED, *reasons}:
                return seen
            self.plane.call("POST", f"/operations/{operation}:retry")

    def until(self, operation: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The operation as soon as ``enough`` says so."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            seen = self.plane.operation(operation)
            if enough(seen):
                return seen
            time.sleep(_LOOK_SECONDS)
        raise AssertionError(f"{seen['status']} {[(s['name'], s['status'], s['because']) for s in seen['stages']]}")

    def reaches(self, operation: str, stage: str, *, ended: bool) -> bool:
        """Wait until a stage has begun, or ended. False: the operation came to rest before."""

        def there(seen: dict[str, Any]) -> bool:
            status = next((s["status"] for s in seen["stages"] if s["name"] == stage), "pending")
            return seen["status"] in RESTING or status in ("done", "skipped") or (not ended and status in ("running", "waiting"))

        return self.until(operation, there)["status"] not in RESTING

    def kill_at_every_change(self, what: Scenario, when: str) -> tuple[str, list[Strike]]:
        """Ask, and kill it at the first call of each kind that changes something, AWS's and Kubernetes', until the operation rests.

        ``when`` is ``halt`` (before the act: it never happens) or ``hold`` (between the act and its record). The operation's id, and
        where it was killed.
        """
        struck: list[Strike] = []
        self.begin_beside(what)
        rules = self._arm([], when)
        operation = self.ask(what)
        while True:
            call = self._struck(operation, rules)
            if call is not None:
                struck.append(Strike(call, self._going(operation)))
                self.plane.kill()
            for rule in rules:
                self.ground.sandbox.admin("faults/remove", id=rule)
            if call is None:
                return operation, struck
            rules = self._arm([s.call for s in struck], when)
            self.plane.start()

    def _arm(self, seen: list[str], when: str) -> list[int]:
        """Lie in wait for a change of a kind not seen yet."""
        past = "".join(f"(?!{re.escape(call)}$)" for call in seen)
        kubernetes = KUBERNETES_CHANGES.replace("kubernetes:", f"kubernetes:{past.replace('kubernetes:', '')}", 1)
        return [self.ground.sandbox.fault(match, when=when, count=1) for match in (past + CHANGES, kubernetes)]

    def _struck(self, operation: str, rules: list[int]) -> str | None:
        """The call that one of the rules keeps waiting; None: the operation has come to rest."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            hit = next((r["struck"][-1] for r in self.ground.sandbox.ask("faults") if r["id"] in rules and r["struck"]), None)
            if hit is not None:
                return str(hit)
            seen = self.plane.operation(operation)
            if seen["status"] == "blocked" and seen["problem"]["code"] == RESTARTED:
                self.plane.call("POST", f"/operations/{operation}:retry")
            elif seen["status"] in RESTING:
                return None
            time.sleep(_LOOK_SECONDS)
        raise AssertionError(f"neither a change nor an end: {seen['status']} {seen['stages']}")

    def _going(self, operation: str) -> str:
        stages = self.plane.operation(operation)["stages"]
        return ", ".join(s["name"] for s in stages if s["status"] in ("running", "waiting")) or "-"


def _request(document: dict[str, Any], what: Scenario, ground: Ground) -> tuple[str, str, dict[str, Any], Any]:
    """Method, path, query and body of a workflow's route: its parameters and its body's fields are the spec's, by name."""
    spec = {"cluster": ground.tag, **what.spec(ground).model_dump(mode="json")}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            if told.get("operationId") != what.operation_id:
                continue
            names = {p["name"]: p["in"] for p in told.get("parameters", ())}
            filled = re.sub(r"\{(\w+)\}", lambda match: str(what.path.get(match[1], spec.get(match[1], match[0]))), path)
            query = {name: spec[name] for name, place in names.items() if place == "query" and spec.get(name) is not None}
            if "approval" in names:
                query["approval"] = ""  # the plan gives it
            asked = what.body(ground) if callable(what.body) else what.body
            body = asked if asked is not None else _body(document, told, spec)
            return method.upper(), filled.removeprefix("/api/v1"), query, body
    raise LookupError(f"no route is called {what.operation_id}; say its door in the scenario of {what.workflow}")


def _body(document: dict[str, Any], told: dict[str, Any], spec: dict[str, Any]) -> Any:
    if "requestBody" not in told:
        return None
    schema = told["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return {name: spec[name] for name in schema.get("properties", {}) if spec.get(name) is not None}
