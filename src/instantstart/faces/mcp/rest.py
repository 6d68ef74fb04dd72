"""How a tool reaches the product: the REST routes, as the caller itself. In process or over the network, one code."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from instantstart.base import problems
from instantstart.faces.mcp.schemas import Route

API = "/api/v1"
Json = dict[str, Any]


class Rest:
    """Calls as one identity. ``authorization`` is the caller's own header; this face has no power of its own."""

    def __init__(self, http: httpx2.AsyncClient, authorization: str | None) -> None:
        self._http = http
        self._headers = {"X-InstantStart-Face": "mcp"} | ({"Authorization": authorization} if authorization else {})

    async def call(self, route: Route, arguments: Mapping[str, Any]) -> Any:
        """What ``route`` answers to ``arguments``. Raises the Problem it tells."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if route.takes_selected and "cluster" not in given:
            given["cluster"] = await self._selected()
        body = {name: value for name, value in given.items() if name not in route.path_names | route.query_names}
        query = {name: _as_query(value) for name, value in given.items() if name in route.query_names}
        return await self.send(route.method, _path(route, given), query=query, body=body if route.has_body else None)

    async def send(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Json | None = None) -> Any:
        """The JSON of one call. A write whose connection broke is asked again once, under the same Idempotency-Key.

        An approval is good once, so it is the key: the same call again, whose answer was lost, answers the operation that it became.
        """
        approval = (query or {}).get("approval")
        key = hashlib.sha256(str(approval).encode()).hexdigest()[:32] if approval else uuid.uuid4().hex
        headers = self._headers | ({"Idempotency-Key": key} if method == "POST" or approval else {})
        attempts = 2 if method in ("GET", "POST") else 1
        for attempt in range(1, attempts + 1):
            try:
                return _read(await self._http.request(method, path, params=dict(query or {}), json=body, headers=headers))
            except httpx2.TransportError as error:
                if attempt == attempts or isinstance(error, httpx2.ConnectError):
                    raise problems.Unreachable(
                        "server.unreachable",
                        f"The InstantStart server at {self._http.base_url} does not answer.",
                        hint="Start it with: instantstart serve",
                    ) from error
        raise AssertionError("unreachable")

    async def _selected(self) -> str:
        me = await self.send("GET", f"{API}/me")
        if not me.get("selected_cluster"):
            raise problems.Invalid(
                "cluster.not_selected",
                "Say which cluster, or select one first.",
                hint="cluster_list shows them; cluster_select chooses one.",
                fields=[problems.Violation("/cluster", "cluster is required while none is selected.")],
            )
        return str(me["selected_cluster"])


def _path(route: Route, given: Mapping[str, Any]) -> str:
    missing = [problems.Violation(f"/{name}", f"{name} is required.") for name in sorted(route.path_names) if not str(given.get(name, ""))]
    dotted = [problems.Violation(f"/{name}", f"{name} cannot be dots.") for name in route.path_names if str(given.get(name)) in (".", "..")]
    if missing or dotted:
        fields = [*missing, *dotted]
        raise problems.Invalid("request.invalid", " ".join(f.message for f in fields), title="The request is not valid", fields=fields)
    path = route.path
    for name in route.path_names:
        path = path.replace("{" + name + "}", quote(str(given[name]), safe=""))
    return path


def _as_query(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def _read(answer: httpx2.Response) -> Any:
    if answer.status_code == 204 or (answer.status_code < 400 and not answer.content):
        return {"ok": True}
    media = answer.headers.get("content-type", "")
    if problems.MEDIA_TYPE in media:
        raise problems.from_document(answer.json())
    if answer.status_code >= 400 or "json" not in media:
        raise problems.Unreachable("server.not_instantstart", f"The server answered {answer.status_code} in a way InstantStart does not.")
    return answer.json()
