"""The audit log tells who was refused, from where and why; it is filtered and exported, never a formula, and forgets in time."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from instantstart.faces.api import made
from instantstart.faces.api.audit import Sampler
from instantstart.faces.api.audit_log import harmless
from instantstart.store.records import AuditFilter, AuditRow

Sign = Callable[..., dict[str, str]]
NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def _line(number: int, **more: Any) -> AuditRow:
    told: dict[str, Any] = {
        "number": 0, "at": NOON + dt.timedelta(minutes=number), "caller": f"id-{number}", "kind": "person", "role": "admin", "face": "cli",
        "method": "POST", "path": f"/api/v1/clusters/c{number}", "summary": f"cluster_create cluster=c{number}", "status": 202,
    }  # fmt: skip
    return AuditRow(**{**told, **more})


def test_refusals_at_the_door_are_told_with_place_and_reason(client: TestClient, sign: Sign) -> None:
    client.get("/api/v1/me")
    client.get("/api/v1/me", headers={"Authorization": "Bearer ist_wrong_wrong_wrong_wrong"})
    client.get("/api/v1/clusters", headers={**sign("viewer"), "Host": "evil.example"})
    client.post("/mcp", json={})
    client.get("/api/v1/tokens", headers=sign("operator", "agent"))
    lines = client.get("/api/v1/audit?outcome=refused&order=oldest", headers=sign("admin")).json()["items"]
    told = [(x["caller"] == "anonymous", x["face"], x["status"], x["code"], x["path"], x["name"]) for x in lines]
    assert told == [
        (True, "api", 401, "identity.missing", "/api/v1/me", None),
        (True, "api", 401, "identity.token_unknown", "/api/v1/me", None),
        (True, "api", 421, "request.host_unknown", "/api/v1/clusters", None),
        (True, "mcp", 401, "identity.missing", "/mcp", None),
        (False, "api", 403, "identity.role_too_low", "/api/v1/tokens", "operator agent"),
    ]
    assert {each["address"] for each in lines} == {"testclient"}
    assert lines[-1]["action"] == "token_list"


def test_a_socket_that_is_refused_is_told(client: TestClient, room: Any) -> None:
    with (
        pytest.raises(WebSocketDenialResponse),
        client.websocket_connect("/api/v1/operations/x/stream", headers={"Host": "127.0.0.1:3099"}),
    ):
        pass
    assert [each.code for each in room.store.audit.list(AuditFilter()).items] == ["identity.missing"]


def test_who_is_refused_again_and_again_cannot_fill_the_disk(client: TestClient, sign: Sign, room: Any) -> None:
    for _ in range(50):
        client.get("/api/v1/me")
    assert len(room.store.audit.list(AuditFilter(), limit=200).items) == 20
    viewer = sign("viewer")
    for _ in range(25):
        client.post("/api/v1/clusters", json={"zone": "use1-az1"}, headers=viewer)
    known = room.store.audit.list(AuditFilter(action="cluster_create"), limit=200).items
    assert len(known) == 25, "a change that somebody known asked for is always told"


def test_what_was_left_out_is_counted() -> None:
    now = 0.0
    sampler = Sampler(each=2, all_together=3, keys=2)
    sampler.now = lambda: now
    assert [sampler.admit(key) for key in ("a", "a", "a", "b", "b", "c")] == [0, 0, None, 1, None, None]
    now = 61.0
    assert sampler.admit("c") == 2


def test_who_signed_in_is_told(client: TestClient, token: Callable[..., str], room: Any) -> None:
    client.post("/api/v1/session", json={"token": token("viewer")}, headers={"Origin": "http://127.0.0.1:3099"})
    told = [(each.action, each.name, each.face, each.status) for each in room.store.audit.list(AuditFilter()).items]
    assert told == [("session_create", "viewer person", "console", 201)]


def test_filters_narrow_and_cursors_go_on(client: TestClient, sign: Sign, room: Any) -> None:
    for number in range(6):
        room.store.audit.append(
            _line(number, cluster=f"c{number % 2}", action="cluster_create", name="Ada 100%", status=202 if number else 409)
        )
    admin = sign("admin")

    def found(**query: Any) -> list[int]:
        answer = client.get("/api/v1/audit", params=query, headers=admin)
        assert answer.status_code == 200, answer.text
        return [int(each["caller"][3:]) for each in answer.json()["items"]]

    assert found() == [5, 4, 3, 2, 1, 0]
    assert found(order="oldest", cluster="c1") == [1, 3, 5]
    assert (found(outcome="failed"), found(outcome="refused")) == ([0], [])
    assert found(after="2026-11-30T12:02:00Z", before="2026-11-30T13:04:00+01:00") == [3, 2]
    assert (found(text="ADA 100%", identity="id-2"), found(text="_")) == ([2], [5, 4, 3, 2, 1, 0])
    assert found(text="100_") == []
    page = client.get("/api/v1/audit?limit=4&order=oldest", headers=admin).json()
    assert found(order="oldest", cursor=page["cursor"]) == [4, 5]
    for wrong in ({"after": "yesterday"}, {"after": "2026-11-30T12:00:00"}, {"outcome": "odd"}, {"text": "a\x00b"}, {"face": "x"}):
        assert client.get("/api/v1/audit", params=wrong, headers=admin).status_code == 422, wrong


def test_an_export_holds_every_line_and_no_formula(client: TestClient, sign: Sign, room: Any) -> None:
    for number in range(1100):
        room.store.audit.append(_line(number))
    room.store.audit.append(_line(0, name='=cmd|"/c calc"!A1', summary='+1,"two"\nlines', address="@x"))
    admin = sign("admin")
    answer = client.get("/api/v1/audit/export?order=oldest", headers=admin)
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 1101
    assert (rows[-1]["name"], rows[-1]["summary"], rows[-1]["address"]) == ('\'=cmd|"/c calc"!A1', '\'+1,"two"\nlines', "'@x")
    lines = [json.loads(each) for each in client.get("/api/v1/audit/export?form=jsonl&identity=id-7", headers=admin).text.splitlines()]
    assert [(each["caller"], each["at"]) for each in lines] == [("id-7", "2026-11-30T12:07:00+00:00")]
    assert client.get("/api/v1/audit/export?form=xlsx", headers=admin).status_code == 422


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1"])
def test_a_cell_is_never_a_formula(cell: str) -> None:
    assert harmless(cell) == "'" + cell
    assert harmless(f"x{cell}") == f"x{cell}"
    assert (harmless(None), harmless(-0)) == ("", "0")


def test_lines_are_forgotten_when_their_time_is_over(client: TestClient, sign: Sign, room: Any) -> None:
    room.store.audit.append(_line(0, at=NOON - dt.timedelta(days=4000)))
    client.post("/api/v1/clusters", json={"zone": "use1-az1"}, headers=sign("operator"))
    assert [each.action for each in room.store.audit.list(AuditFilter()).items] == ["cluster_create"]


def test_no_secret_is_ever_in_a_line(client: TestClient, sign: Sign, room: Any) -> None:
    admin = sign("admin")
    token = client.post("/api/v1/tokens", json={"name": "x", "role": "viewer", "note": "n"}, headers=admin).json()["token"]
    client.get(f"/api/v1/tokens/{token}", headers=admin)
    client.delete(f"/api/v1/tokens/{token}", headers=admin)
    told = client.get("/api/v1/audit/export", headers=admin).text
    assert "token_create" in told
    assert token not in told
    assert admin["Authorization"].split()[1] not in told


def _targets(client: TestClient, admin: dict[str, str], query: str = "") -> list[tuple[str, str | None]]:
    items = client.get(f"/api/v1/audit?order=oldest{query}", headers=admin).json()["items"]
    return [(each["action"], each["target"]) for each in items]


def test_a_line_names_what_was_made_changed_and_begun(client: TestClient, sign: Sign) -> None:
    admin = sign("admin")
    token = client.post("/api/v1/tokens", headers=admin, json={"name": "ada", "role": "viewer"}).json()["identity"]
    client.post(f"/api/v1/tokens/{token['id']}:rotate", headers=admin, json={})
    client.delete(f"/api/v1/tokens/{token['id']}", headers=admin)
    client.delete("/api/v1/tokens/nobody", headers=admin)
    begun = client.post("/api/v1/clusters", headers=admin, json={"zone": "use1-az1", "tag": "hypd-1"})
    ada = f"ada ({token['id']})"
    assert _targets(client, admin)[:4] == [("token_create", ada), ("token_rotate", ada), ("token_revoke", ada), ("token_revoke", "nobody")]
    assert begun.status_code == 202
    assert _targets(client, admin)[4] == ("cluster_create", begun.json()["subject"])
    assert _targets(client, admin, "&target=ADA&action=token_create") == [("token_create", ada)]
    assert _targets(client, admin, f"&text={token['id']}&action=token_create") == [("token_create", ada)]
    exported = list(csv.DictReader(io.StringIO(client.get("/api/v1/audit/export?target=ada&order=oldest", headers=admin).text)))
    assert [each["target"] for each in exported] == [ada] * 3


@pytest.mark.parametrize(
    ("answer", "values", "told"),
    [
        ({"workflow": "x", "subject": "plan/r/t/sort/g", "spec": {"name": "g"}}, {"cluster": "t"}, "plan/r/t/sort/g"),
        ({"workflow": "x", "subject": "cluster/r/t", "spec": {"name": "gpu"}}, {"cluster": "t"}, "cluster/r/t: gpu"),
        ({"workflow": "x", "subject": "cluster/r/t", "spec": {"nodes": ["i-1", "i-2"]}}, {"cluster": "t"}, "cluster/r/t: i-1, i-2"),
        ({"namespace": "ml", "secret": "hub"}, {"cluster": "t"}, "ml/hub"),
        ({"uncordoned": ["n1"], "left": []}, {"cluster": "t"}, "n1"),
        ([1], {"namespace": "ml", "name": "x", "cluster": "t"}, "ml/x"),
        ({"ended": 3}, {"identity_id": "id-1"}, "id-1"),
        ({}, {"cluster": "t"}, "t"),
        ({}, {}, None),
    ],
)  # fmt: skip
def test_what_an_answer_tells_of(answer: Any, values: dict[str, str], told: str | None) -> None:
    assert made.target(json.dumps(answer).encode(), values) == told
    assert made.target(b"{", {}) is None


#: they make nothing: they look, try, or speak with what is there
MAKE_NOTHING = {"preflight_run", "training_log_rules_try", "training_job_preview", "mlflow_open", "model_call", "model_call_stream"}


def test_every_answer_of_what_makes_something_names_it() -> None:
    document = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
    posts = [ops["post"] for ops in document["paths"].values() if "post" in ops]
    silent = {each["operationId"] for each in posts if not _names_something(document, each)}
    assert silent <= MAKE_NOTHING


def _names_something(document: Any, route: Any) -> bool:
    told = [a["content"].get("application/json", {}).get("schema", {}) for s, a in route["responses"].items() if s < "3" and "content" in a]
    schemas = [each for schema in told for each in (*schema.get("anyOf", ()), schema) if "$ref" in each]
    fields = {f for each in schemas for f in document["components"]["schemas"][each["$ref"].rsplit("/")[-1]]["properties"]}
    return bool(fields & {"subject", "identity", "id", *made.NAMES})
