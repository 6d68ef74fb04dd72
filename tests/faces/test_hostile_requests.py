"""Hostile requests on the real routes, without a world behind (cases 88 and 97): pages of other sites, odd bodies, names that climb."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from instantstart import main
from instantstart.base import problems
from instantstart.base.settings import Settings
from instantstart.capabilities.routes import ROUTERS
from instantstart.faces.api.app import build
from instantstart.faces.mcp.mount import Mount

HOST = "http://127.0.0.1:3099"
PROBLEM = "application/problem+json"


class NoAws:
    """AWS that nobody may reach: whoever is refused before has asked nothing."""

    default_region = "us-west-2"

    def region(self, _name: str | None = None) -> Any:
        """Raises Unreachable."""
        raise problems.Unreachable("aws.unreachable", "There is no AWS in this test.")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Any]]:
    """A client of the whole app, MCP with it, and the room."""
    room = main.compose(Settings(data_dir=tmp_path_factory.mktemp("hostile"), region="us-west-2", rate_limit_per_second=0))
    mount = Mount()
    app = build(dataclasses.replace(room, aws=NoAws()), ROUTERS, mounts={"/mcp": mount}, lifespans=[mount.lifespan])  # type: ignore[arg-type]
    mount.connect(app, app.openapi)
    with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
        yield client, room
    room.store.close()


@pytest.fixture(scope="module")
def client(house: tuple[TestClient, Any]) -> TestClient:
    """A client with no identity."""
    return house[0]


@pytest.fixture(scope="module")
def admin(house: tuple[TestClient, Any]) -> dict[str, str]:
    """Headers of an administrator."""
    return {"Authorization": f"Bearer {house[1].store.identities.create_token('a', 'admin', 'person')[1]}"}


def share(client: TestClient, which: int) -> list[tuple[str, str, Any]]:
    """A sixth of the described routes, another for another number."""
    described = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    return [(path, method, told) for path, methods in described.items() for method, told in methods.items()][which % 6 :: 6]


def everywhere(client: TestClient) -> list[tuple[str, str]]:
    """Every described route, and the faces beside them."""
    described = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    found = [(method.upper(), path.replace("{", "").replace("}", "")) for path, methods in described.items() for method in methods]
    return [*found, ("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/"), ("GET", "/openapi.json")]


REBOUND = {"Host": "attacker.example"}
FOREIGN = {"Origin": "https://attacker.example"}
FETCHED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.mark.parametrize(("headers", "status"), [(REBOUND, 421), (FOREIGN, 403), (FETCHED, 403)])
def test_no_route_answers_a_page_of_another_site(client: TestClient, admin: dict[str, str], headers: dict[str, str], status: int) -> None:
    for method, path in everywhere(client):
        answer = client.request(method, path, headers={**admin, **headers})
        assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), (method, path)
        assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_of_another_site_is_told_nothing(client: TestClient) -> None:
    asked = {**FOREIGN, "Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "authorization"}
    for _, path in everywhere(client)[::10]:
        answer = client.options(path, headers=asked)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_cookie_alone_changes_nothing_on_any_route(house: tuple[TestClient, Any]) -> None:
    client, room = house
    identity, _ = room.store.identities.create_token("cookie", "admin", "person")
    code = room.store.identities.create_code(identity.id)
    signed = client.post("/api/v1/session", json={"code": code}, headers={"Origin": HOST})
    told = next(each for each in signed.headers.get_list("set-cookie") if each.startswith("instantstart_session="))
    cookie = told.partition(";")[0]
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in told.split(";")}
    client.cookies.clear()
    for method, path in everywhere(client):
        if method == "GET" or not path.startswith("/api/v1") or path == "/api/v1/session":
            continue
        answer = client.request(method, path, headers={"Cookie": cookie, "Content-Type": "application/json"}, content=b"{}")
        assert (answer.status_code, answer.json()["code"]) == (403, "request.origin_missing"), (method, path)
        form = {"Cookie": cookie, "Content-Type": "text/plain", "Origin": HOST}
        assert client.request(method, path, headers=form, content=b"{}").status_code == 415, (method, path)
    assert client.post("/mcp", headers={"Cookie": cookie, "Origin": HOST}, json={}).status_code == 401


def test_no_reading_address_changes_anything_by_get(client: TestClient) -> None:
    for path, methods in client.app.openapi()["paths"].items():  # type: ignore[attr-defined]
        if "get" in methods:
            assert "requestBody" not in methods["get"], path
            assert "202" not in methods["get"]["responses"], path


@pytest.mark.parametrize("path", ["/api/v1/operations/x/stream", "/api/v1/clusters/x/logs/stream?pod=x"])
@pytest.mark.parametrize(("headers", "status"), [(REBOUND, 421), (FOREIGN, 403), ({"Origin": "null"}, 403)])
def test_no_socket_opens_for_another_site(
    client: TestClient, admin: dict[str, str], path: str, headers: dict[str, str], status: int
) -> None:
    asked = {"Host": "127.0.0.1:3099", **admin, **headers}
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect(path, headers=asked):
        pass
    assert refused.value.status_code == status


def test_every_answer_forbids_frames_and_foreign_scripts(client: TestClient, admin: dict[str, str]) -> None:
    for method, path in [("GET", "/"), ("GET", "/login"), ("GET", "/api/v1/me"), ("GET", "/nowhere"), ("POST", "/api/v1/tokens")]:
        headers = client.request(method, path, headers=admin).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["frame-ancestors"] == policy["object-src"] == "'none'"
        assert policy.get("script-src", policy["default-src"]) == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")


def _bombs() -> Iterator[tuple[str, bytes]]:
    body = b'{"name": "' + b"a" * 3_000_000 + b'", "role": "viewer"}'
    yield "gzip", gzip.compress(body)
    yield "deflate", zlib.compress(body)
    yield "br", b"\x0b\x02\x80"


@pytest.mark.parametrize(("encoding", "body"), [*_bombs()])
def test_a_compressed_body_is_not_unpacked(client: TestClient, admin: dict[str, str], encoding: str, body: bytes) -> None:
    headers = {**admin, "Content-Type": "application/json", "Content-Encoding": encoding}
    answer = client.post("/api/v1/tokens", headers=headers, content=body)
    assert answer.status_code in (400, 415)
    assert answer.headers["content-type"] == PROBLEM


ODD = (
    b'{"a":' * 100_000,
    b'{"name": ' + b"9" * 5000 + b"}",
    b'{"name": 1e999999}',
    b'{"name": NaN}',
    b'{"name": "\\ud83d", "role": "viewer"}',
    b'{"name": "a\\u0000b", "role": "viewer"}',
    b'{"name": "x", "name": "y", "role": "viewer", "__proto__": {"role": "admin"}}',
    b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"),
    b"\x80abc",
    b"null",
    b"[]",
    b'"x"',
    b"",
)


@pytest.mark.parametrize("which", range(len(ODD)))
def test_odd_bodies_are_refused_in_the_one_shape(client: TestClient, admin: dict[str, str], which: int) -> None:
    for path, method, told in share(client, which):
        if "requestBody" in told:
            headers = {**admin, "Content-Type": "application/json"}
            answer = client.request(method, path.replace("{", "").replace("}", ""), headers=headers, content=ODD[which])
            assert answer.status_code in (400, 404, 422, 502), (method, path, answer.text[:300])
            assert answer.headers["content-type"] == PROBLEM
            json.loads(answer.content)


#: (a name in an address, whether it may be part of one at all)
CLIMBING = [
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%0d%0aSet-Cookie:x=y",
    "a%2fb",
    "%ff%fe",
    "%f0%9f%92%a9",
    "'",
    '"',
    "a" * 5000,
]


@pytest.mark.parametrize("which", range(len(CLIMBING)))
def test_no_name_in_an_address_is_more_than_a_name(client: TestClient, admin: dict[str, str], which: int) -> None:
    for path, method, _ in share(client, which):
        if method != "get" or "{" not in path:
            continue
        parts = [CLIMBING[which] if part.startswith("{") else part for part in path.split("/")]
        answer = client.get("/".join(parts), headers=admin)
        assert answer.status_code in (200, 404, 405, 422, 502), (path, answer.status_code, answer.text[:300])
        assert "set-cookie" not in answer.headers
        assert "root:" not in answer.text
