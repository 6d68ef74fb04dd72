"""The gate over the whole app: Host, Origin, media type, size, headers, and the boundary for the unexpected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

Sign = Callable[..., dict[str, str]]
PROBLEM = "application/problem+json"
EVERYWHERE = ["/", "/healthz", "/login", "/api/v1/me", "/api/v1/nowhere", "/mcp", "/openapi.json", "/assets/x.js"]


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:3099", "evil@127.0.0.1", "", "127.0.0.1:x"]
)
def test_another_host_name_is_refused_everywhere(client: TestClient, sign: Sign, path: str, host: str) -> None:
    answer = client.get(path, headers={**sign("admin"), "Host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json()["code"] == "request.host_unknown"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:3099", "localhost", "LOCALHOST:8080", "[::1]:3099", "console.example:8443", "behind.example", "behind.example:9"]
)
def test_our_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:4000",
        "http://localhost:3099",
        "file://",
        "http://127.0.0.1:3099@evil.example",
        "chrome-extension://abc",
    ],
)
def test_a_page_of_another_origin_is_refused_everywhere(client: TestClient, sign: Sign, path: str, origin: str) -> None:
    answer = client.get(path, headers={**sign("admin"), "Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["code"] == "request.origin_unknown"


@pytest.mark.parametrize("origin", ["http://127.0.0.1:3099", "https://console.example:8443", "https://behind.example"])
def test_our_own_origin_is_answered(client: TestClient, sign: Sign, origin: str) -> None:
    assert client.get("/api/v1/me", headers={**sign("viewer"), "Origin": origin}).status_code == 200


def test_a_cross_site_fetch_without_origin_is_refused_but_a_link_is_followed(client: TestClient, sign: Sign) -> None:
    fetched = client.get("/api/v1/me", headers={**sign("viewer"), "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})
    assert fetched.status_code == 403
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/me", "/api/v1/nowhere", "/mcp"])
def test_every_answer_carries_the_security_headers_and_a_request_id(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-request-id"]
    assert "access-control-allow-origin" not in headers


def test_a_request_id_is_kept_when_it_is_harmless(client: TestClient) -> None:
    assert client.get("/healthz", headers={"X-Request-Id": "trace-12345678"}).headers["x-request-id"] == "trace-12345678"
    assert (
        client.get("/healthz", headers={"X-Request-Id": "<script>alert(1)</script>"}).headers["x-request-id"] != "<script>alert(1)</script>"
    )


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
def test_a_form_post_is_no_request_of_ours(client: TestClient, sign: Sign, media: str) -> None:
    answer = client.post("/api/v1/clusters", headers={**sign("operator"), "Content-Type": media}, content=b'{"zone":"use1-az1"}')
    assert answer.status_code == 415
    assert answer.json()["code"] == "request.media_type"


def test_a_body_above_the_limit_is_refused_with_and_without_its_length(client: TestClient, sign: Sign) -> None:
    big = json.dumps({"zone": "x" * (1024 * 1024)}).encode()
    headers = {**sign("operator"), "Content-Type": "application/json"}

    def pieces() -> Iterator[bytes]:
        yield from (big[at : at + 65536] for at in range(0, len(big), 65536))

    for content in (big, pieces()):
        answer = client.post("/api/v1/clusters", headers=headers, content=content)
        assert answer.status_code == 413
        assert answer.json()["code"] == "request.too_large"


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"\xff\xfe", b'{"zone": }', b"nope"])
def test_a_body_that_is_no_json_is_a_400(client: TestClient, sign: Sign, body: bytes) -> None:
    answer = client.post("/api/v1/clusters", headers={**sign("operator"), "Content-Type": "application/json"}, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json()["code"].startswith("request.malformed")


def test_an_unexpected_exception_tells_nothing_but_its_request_id(client: TestClient, sign: Sign) -> None:
    answer = client.get("/api/v1/clusters/x/crash", headers=sign("viewer"))
    assert answer.status_code == 500
    assert answer.json()["code"] == "request.crashed"
    assert answer.json()["evidence"]["request_id"] == answer.headers["x-request-id"]
    assert "secret inner detail" not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nowhere", 404, "route.unknown"),
        ("GET", "/api/nowhere", 404, "route.unknown"),
        ("GET", "/api", 404, "route.unknown"),
        ("DELETE", "/api/v1/clusters", 405, "route.method_not_allowed"),
        ("GET", "/api/v1/operations/none", 404, "operation.unknown"),
        ("GET", "/api/v1/operations/%2e%2e", 422, "request.invalid"),
        ("GET", "/api/v1/operations?limit=0&status=odd&bogus=1", 422, "request.invalid"),
    ],
)
def test_every_refusal_is_a_problem(client: TestClient, sign: Sign, method: str, path: str, status: int, code: str) -> None:
    answer = client.request(method, path, headers=sign("admin"))
    document = answer.json()
    assert (answer.status_code, document["code"]) == (status, code)
    assert answer.headers["content-type"] == PROBLEM
    assert document["status"] == status
    assert {"type", "title", "kind", "detail", "retryable"} <= set(document)


def test_all_violations_are_told_at_once_with_pointers(client: TestClient, sign: Sign) -> None:
    answer = client.post(
        "/api/v1/clusters", headers=sign("operator"), json={"tag": "A B", "count": -1, "bogus": {"password": "hunter2"}, "capacity": 3}
    )
    fields = {f["pointer"]: f["message"] for f in answer.json()["fields"]}
    assert fields == {
        "/tag": "tag must have another form.",
        "/zone": "zone is required.",
        "/count": "count must be at least 0.",
        "/capacity": "capacity must be one of 'on_demand' or 'spot'.",
        "/bogus": "bogus is not a field of this request.",
    }
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("path", ["/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../main.py", "//etc/passwd", "/x%00y"])
def test_the_console_never_leaves_its_folder(client: TestClient, built: tuple[Any, Any], path: str) -> None:
    answer = client.get(path)
    assert "root:" not in answer.text
    assert "import" not in answer.text.partition("<h1>")[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({}, 401),
    ],
)
def test_a_websocket_passes_the_same_gate(client: TestClient, sign: Sign, headers: dict[str, str], status: int) -> None:
    signed = {"Host": "127.0.0.1:3099"} | headers | (sign("viewer") if status != 401 else {})
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/api/v1/operations/x/stream", headers=signed):
        pass
    assert refused.value.status_code == status
    assert refused.value.headers["content-type"] == PROBLEM


def test_a_refused_method_says_which_ones_the_address_takes(client: TestClient, sign: Sign) -> None:
    answer = client.delete("/api/v1/clusters", headers=sign("admin"))
    assert answer.headers["allow"] == "GET, POST"
    assert answer.json()["detail"] == "This address does not take DELETE; it takes GET, POST."
    assert answer.json()["hint"] == "Use GET or POST."
    assert "/openapi.json" in client.get("/api/v1/nowhere", headers=sign("admin")).json()["hint"]
