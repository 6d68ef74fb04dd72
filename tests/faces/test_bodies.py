"""Bodies that say a thing twice, or nothing at all, on the real routes without a world behind."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.faces.test_hostile_requests import admin, client, house

from instantstart.capabilities.vocabulary import Change
from instantstart.faces.api import bodies, openapi
from instantstart.faces.api.problems import HttpProblem

__all__ = ["admin", "client", "house"]
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b'{"a": 1, "a": 2}', ["/a"]),
        (b'{"a": 1, "\\u0061": 1, "a": 3}', ["/a"]),
        (b'{"a": {"x": 1, "x": 1}, "b": [0, {"c/d": 1, "c/d": 2}], "b": []}', ["/b", "/a/x", "/b/1/c~1d"]),
    ],
)
def test_each_name_that_is_there_twice_is_named(body: bytes, pointers: list[str]) -> None:
    with pytest.raises(HttpProblem) as caught:
        bodies.check(body)
    assert [field.pointer for field in caught.value.fields] == pointers


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"a": {"a": [{"a": 1}, {"a": 2}]}}', b"[[{}], 1]", b"\xff", b'"a"'])
def test_what_says_nothing_twice_passes(body: bytes) -> None:
    bodies.check(body)


def test_no_route_takes_a_name_twice(client: TestClient, admin: dict[str, str]) -> None:
    tried = 0
    for path, methods in client.app.openapi()["paths"].items():  # type: ignore[attr-defined]
        for method in methods.keys() & {"post", "put", "patch", "delete"}:
            answer = client.request(method, path, headers={**admin, **JSON}, content=b'{"x": {"name": "a", "name": "b"}}')
            assert (answer.status_code, answer.json()["code"]) == (400, "request.name_repeated"), (method, path)
            assert answer.json()["fields"] == [{"pointer": "/x/name", "message": "x.name is given more than once."}]
            tried += 1
    assert tried > 80


def test_arguments_of_a_tool_do_not_come_twice_either(client: TestClient, admin: dict[str, str]) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "cluster_list", "arguments": {"a": 1, "a": 2}}}'
    headers = {**admin, **JSON, "Accept": "application/json, text/event-stream"}
    told = client.post("/mcp", headers=headers, content=body)
    assert (told.status_code, told.json()["code"]) == (400, "request.name_repeated")
    assert told.json()["fields"][0]["pointer"] == "/params/arguments/a"
    chunks = (part for part in (body[:20], body[20:].replace(b', "a": 2', b"").replace(b'"a": 1', b"")))
    assert client.post("/mcp", headers=headers, content=chunks).status_code == 200
    assert client.post("/mcp", headers=headers, content=(b"[" * 1000 for _ in range(2000))).json()["code"] == "request.too_large"


def test_a_change_that_names_nothing_is_told_what_it_may_name(client: TestClient, admin: dict[str, str]) -> None:
    described = client.app.openapi()  # type: ignore[attr-defined]
    changing = [(path, methods["patch"]) for path, methods in described["paths"].items() if "patch" in methods]
    assert len(changing) >= 6
    for path, operation in changing:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        answer = client.patch(path.replace("{", "").replace("}", "").replace("_", "-"), headers=admin, json={})
        told: dict[str, Any] = answer.json()
        assert (answer.status_code, told["code"]) == (422, "request.invalid"), (path, told)
        assert told["detail"].startswith("The body names nothing to change; it may name: "), (path, told)
        assert set(told["detail"].rpartition(": ")[2].rstrip(".").split(", ")) == set(
            described["components"]["schemas"][name]["properties"]
        )


def test_every_body_of_a_change_says_so(client: TestClient) -> None:
    for route in openapi.api_routes(client.app):  # type: ignore[arg-type]
        if "PATCH" in (route.methods or ()):
            assert issubclass(route.body_field.field_info.annotation, Change), route.path  # type: ignore[union-attr, arg-type]
