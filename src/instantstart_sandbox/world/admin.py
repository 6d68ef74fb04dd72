"""The admin door of the sandbox, under ``/_sandbox/``: time, weather, limits, ledgers. No credentials; loopback only."""

from __future__ import annotations

import http
import json
import os
import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from instantstart_sandbox.world.seams import CrowdedWorld

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Body = dict[str, Any]
Verb = Callable[["World", Body], Any]


class Refused(ValueError):  # noqa: N818 - named for what the caller did
    """The request cannot be understood: 400."""


def _now(world: World, body: Body) -> Any:
    return {"now": world.clock.now(), "utc": world.clock.utc().isoformat(), "rate": world.clock.rate}


def _journal(world: World, body: Body) -> Any:
    return world.journal.since(int(body.get("since", 0)))


def _unsupported(world: World, body: Body) -> Any:
    return world.journal.unsupported_calls()


def _crashes(world: World, body: Body) -> Any:
    return world.journal.crashes()


def _state(world: World, body: Body) -> Any:
    return {
        **_now(world, body),
        "account": world.account,
        "region": world.region,
        "sections": {name: len(section) for name, section in sorted(world.state.items())},
        "owned_operations": len(world.registry.operations()),
        "timers": len(world.clock.dump()["timers"]),
        "faults": world.faults.dump(),
        "capacity": world.capacity.dump(),
        "quotas": world.quotas.dump(),
        "unsupported": world.journal.unsupported_calls(),
        "crashes": len(world.journal.crashes()),
    }


def _section(world: World, body: Body) -> Any:
    name = str(body.get("name", ""))
    if name not in world.state:
        raise Refused(f"no section is named {name!r}; there are {', '.join(sorted(world.state))}")
    return world.state[name]


def _warp(world: World, body: Body) -> Any:
    seconds = _number(body, "seconds")
    if seconds < 0:
        raise Refused("time goes forward only")
    world.warp(seconds)
    return _now(world, body)


def _rate(world: World, body: Body) -> Any:
    rate = _number(body, "rate")
    if rate <= 0:
        raise Refused("rate is above 0 (virtual seconds for each real second)")
    world.clock.set_rate(rate)
    world.changed()
    return _now(world, body)


def _fault(world: World, body: Body) -> Any:
    return {"id": world.faults.add(**body).id}


def _clear_faults(world: World, body: Body) -> Any:
    world.faults.clear()
    return {}


def _take_away(world: World, body: Body) -> Any:
    world.faults.take_away(int(_number(body, "id")))
    return {}


def _faults(world: World, body: Body) -> Any:
    return world.faults.dump()


def _settings(world: World, body: Body) -> Any:
    world.settings.update(body)
    world.changed()
    return world.settings.dump()


def _capacity(world: World, body: Body) -> Any:
    world.capacity.set(_text(body, "instance_type"), _text(body, "zone"), int(_number(body, "available")))
    world.changed()
    return world.capacity.dump()


def _quota(world: World, body: Body) -> Any:
    region = str(body.get("region", "*"))
    world.quotas.set(_text(body, "service_code"), _text(body, "name"), _number(body, "value"), region)
    world.changed()
    return world.quotas.dump()


def _reset(world: World, body: Body) -> Any:
    world.reset()
    return {}


def _snapshot(world: World, body: Body) -> Any:
    with world.clock.lock:
        world.save()
        if body.get("die") is True:
            os.kill(os.getpid(), signal.SIGKILL)  # between the two no AWS call was answered
    return {}


def _iam_enforcement(world: World, body: Body) -> Any:
    return _settings(world, {"iam_enforcement": body.get("on")})


def _stale_reads(world: World, body: Body) -> Any:
    return _settings(world, {"stale_reads": _number(body, "seconds")})


def _populate(world: World, body: Body) -> Any:
    if not isinstance(world.kubernetes, CrowdedWorld):
        raise Refused("the Kubernetes side cannot be filled")
    try:
        return world.kubernetes.populate(_text(body, "cluster"), body)
    except KeyError as error:
        raise Refused(f"{error.args[0]} is missing") from error


def _number(body: Body, name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{name} is a number")
    return float(value)


def _text(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} is a text")
    return value


VERBS: dict[tuple[str, str], Verb] = {
    ("GET", "now"): _now,
    ("GET", "journal"): _journal,
    ("GET", "unsupported"): _unsupported,
    ("GET", "crashes"): _crashes,
    ("GET", "malformed"): lambda world, body: world.journal.malformed(),
    ("GET", "breaches"): lambda world, body: world.journal.breaches(),
    ("GET", "habits"): lambda world, body: world.journal.habits.report(),
    ("GET", "iam_questions"): lambda world, body: world.journal.questions(),
    ("GET", "state"): _state,
    ("GET", "section"): _section,
    ("GET", "settings"): lambda world, body: world.settings.dump(),
    ("GET", "faults"): _faults,
    ("GET", "fault"): _faults,
    ("GET", "capacity"): lambda world, body: world.capacity.dump(),
    ("GET", "quota"): lambda world, body: world.quotas.dump(),
    ("POST", "warp"): _warp,
    ("POST", "rate"): _rate,
    ("POST", "fault"): _fault,
    ("DELETE", "faults"): _clear_faults,
    ("POST", "faults/clear"): _clear_faults,
    ("POST", "faults/remove"): _take_away,
    ("POST", "settings"): _settings,
    ("POST", "capacity"): _capacity,
    ("POST", "quota"): _quota,
    ("POST", "reset"): _reset,
    ("POST", "snapshot"): _snapshot,
    ("POST", "iam_enforcement"): _iam_enforcement,
    ("POST", "stale_reads"): _stale_reads,
    ("POST", "populate"): _populate,
}


class Admin:
    """The WSGI application of ``/_sandbox/``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answers JSON: the verb's result, or ``{"error": ...}`` with 400, 404 or 405."""
        status, result = self._answer(environ)
        data = json.dumps(result, default=str).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
        start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
        return [data]

    def _answer(self, environ: dict[str, Any]) -> tuple[int, Any]:
        method, name = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix("/_sandbox/").strip("/")
        if environ.get("HTTP_ORIGIN") or environ.get("HTTP_SEC_FETCH_SITE", "none") != "none":
            return 403, {"error": "A web page may not steer the sandbox."}
        verb = VERBS.get((method, name))
        if verb is None:
            known = sorted({n for _, n in VERBS})
            return (405 if name in known else 404), {"error": f"no {method} {name}; there are {', '.join(known)}"}
        try:
            body = self._body(environ)
            with self._world.clock.lock:
                self._world.drain()
                return 200, verb(self._world, body)
        except (ValueError, TypeError) as error:
            return 400, {"error": str(error)}

    def _body(self, environ: dict[str, Any]) -> Body:
        query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        length = int(environ.get("CONTENT_LENGTH") or 0)
        data = environ["wsgi.input"].read(length) if length else b""
        body = json.loads(data) if data.strip() else {}
        if not isinstance(body, dict):
            raise Refused("the body is a JSON object")
        return {**query, **body}
