"""The ways in beside a bearer token, and those that are closed: cookies of the console, ended and disabled identities, secrets in the
wrong place; through REST, WebSockets and MCP.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx2
from tests.breach import access
from tests.breach.ground import Ground
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

ELSEWHERE = "https://attacker.example"
SOCKETS = (f"/api/v1/operations/{access._NOBODY}/stream", f"/api/v1/clusters/{access._NOWHERE}/logs/stream?pod=x")
#: it ends the session that asks
ENDS_ITSELF = "rest session_delete"
#: from the console's own page, as a browser says it; without a word on where from; from a page of another site
OWN, SILENT, FOREIGN = "own", "silent", "foreign"
#: 429: too many wrong tokens of this address
_REFUSED = (401, 403, 429)
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "breach", "version": "1"}},
}


@dataclass(frozen=True)
class Entrance:
    """Headers with which somebody comes, and what they must be worth.

    ``worth``: the caller of the matrix whose rights they give, or nobody's. ``changes``: whether also what changes something, and sockets.
    ``page``: from where.
    """

    name: str
    headers: Mapping[str, str]
    worth: str = "anonymous"
    page: str = OWN

    @property
    def changes(self) -> bool:
        """A cookie moves something only from its own page."""
        return self.page == OWN


def signed_in(ground: Ground, token: str) -> str:
    """The cookie of a new session."""
    answer = httpx2.post(f"{ground.url}/api/v1/session", json={"token": token}, headers={"Origin": ground.url}, timeout=60)
    assert answer.status_code == 201, answer.text
    return next(each for each in answer.headers.get_list("set-cookie") if each.startswith("instantstart_session=")).partition(";")[0]


def entrances(ground: Ground) -> Iterator[Entrance]:
    """Every way in and every closed one."""
    own, foreign = {"Origin": ground.url}, {"Origin": ELSEWHERE}
    for role in ("viewer", "admin"):
        cookie = {"Cookie": signed_in(ground, ground.token(role))}
        yield Entrance(f"{role}'s cookie", {**cookie, **own}, role)
        yield Entrance(f"{role}'s cookie, no Origin", cookie, role, SILENT)
        yield Entrance(f"{role}'s cookie, another site's page", {**cookie, **foreign}, "nobody", FOREIGN)
        yield Entrance(f"{role}'s cookie as a bearer", {"Authorization": f"Bearer {cookie['Cookie'].partition('=')[2]}"}, "made-up")
    yield Entrance("a bearer from another site's page", {**ground.sign("admin"), **foreign}, "nobody", FOREIGN)
    yield Entrance("a token as a cookie", {"Cookie": f"instantstart_session={ground.token('admin')}", **own})
    yield from _closed(ground, own)


def _closed(ground: Ground, own: Mapping[str, str]) -> Iterator[Entrance]:
    expired, disabled = ground.make_token("admin", expires_in_days=1), ground.make_token("admin")
    left = signed_in(ground, ground.token("admin"))
    cookies = {name: signed_in(ground, str(made["token"])) for name, made in (("expired", expired), ("disabled", disabled))}
    expire(ground, expired["identity"]["id"])
    ground.plane.call("PATCH", f"/tokens/{disabled['identity']['id']}", {"disabled": True})
    assert httpx2.delete(f"{ground.url}/api/v1/session", headers={"Cookie": left, **own}, timeout=60).status_code == 204
    yield Entrance("the cookie of a session that was left", {"Cookie": left, **own})
    for name, made in (("expired", expired), ("disabled", disabled)):
        yield Entrance(f"a token that is {name}", {"Authorization": f"Bearer {made['token']}"}, "revoked")
        yield Entrance(f"the cookie of whose token is {name}", {"Cookie": cookies[name], **own})


def expire(ground: Ground, identity: str) -> None:
    """Let a token's days be over."""
    past = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    with contextlib.closing(sqlite3.connect(ground.plane.folder / "data" / "instantstart.sqlite", timeout=30)) as database, database:
        (kept,) = database.execute("SELECT expires_at FROM identities WHERE id = ?", (identity,)).fetchone()
        told = (
            past.timestamp() if isinstance(kept, float) else type(kept)(past.timestamp()) if isinstance(kept, int) else past.isoformat(" ")
        )
        database.execute("UPDATE identities SET expires_at = ? WHERE id = ?", (told, identity))


def answers(ground: Ground, entrance: Entrance, share: slice) -> Iterator[tuple[str, str]]:
    """What is said to it by a share of the routes, every socket and MCP: yes or no."""
    document = ground.plane.document()
    paths = {
        path: {method: told for method, told in methods.items() if told["operationId"] != ENDS_ITSELF.partition(" ")[2]}
        for path, methods in sorted(document["paths"].items())[share]
    }
    yield from access.by_rest(ground, {"paths": paths}, entrance.headers)
    for path in SOCKETS:
        yield f"socket {path}", _socket(ground, path, entrance.headers)
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    said = httpx2.post(f"{ground.url}/mcp", content=json.dumps(_INITIALIZE), headers={**accepted, **entrance.headers}, timeout=60)
    assert said.status_code in (200, *_REFUSED), said.text
    yield "mcp", "yes" if said.status_code == 200 else "no"


def _socket(ground: Ground, path: str, headers: Mapping[str, str]) -> str:
    status = 101
    try:
        with connect(ground.url.replace("http", "ws", 1) + path, additional_headers=dict(headers)):
            pass
    except InvalidStatus as refused:
        status = refused.response.status_code
    assert status in (101, *_REFUSED), status
    return "yes" if status == 101 else "no"


def expected(entrance: Entrance, matrix: access.Rows, reading: frozenset[str]) -> dict[str, str]:
    """What must be said, by the matrix of bearer tokens. ``reading``: rows of routes that change nothing."""
    if entrance.worth == "nobody":  # the gate is closed to it, whatever it asks
        return {}
    told = {
        row: kept[entrance.worth] if entrance.changes or row in reading or kept["anonymous"] == "yes" else "no"
        for row, kept in matrix.items()
        if row.startswith("rest ") and row != ENDS_ITSELF
    }
    known = entrance.worth not in access.NOBODIES
    sockets = {f"socket {path}": "yes" if known and entrance.changes else "no" for path in SOCKETS}
    return {**told, **sockets, "mcp": "no"}
