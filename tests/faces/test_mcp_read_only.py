"""Read-only mode over all tools of the real app: a viewer's token changes nothing and gets no credential, whatever is listed or sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.faces import toys

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.faces.mcp.catalog import NOT_FOR_AGENTS, TOOLS
from instantstart.faces.mcp.schemas import bind, routes
from instantstart.faces.mcp.tool import Effect, Toolset
from instantstart.store.records import AuditFilter, OperationFilter

CHANGING = [tool for tool in TOOLS if tool.effect is not Effect.reads]
#: names of what would be power in an answer; a *name* of a Secret is none
_POWER = re.compile(r"kubeconfig|password|credential|access_key|session_token|presigned|signed_url|client_token|^token$|^secret$")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[toys.Running]:
    """The real app, really listening; its engine is not launched, and no account is behind it."""
    room = main.compose(Settings(data_dir=tmp_path_factory.mktemp("data"), region="us-west-2"))
    with toys.behind_a_socket(main.application(room), room) as running:
        yield running


def called(house: toys.Running, token: str, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The answer to each call."""
    answers: list[Any] = []

    async def body() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{house.url}/mcp?toolsets=all", http_client=http)) as client,
        ):
            for name, arguments in calls:
                answers.append(await client.call_tool(name, arguments))

    anyio.run(body)
    return answers


def _asked(house: toys.Running) -> list[tuple[str, dict[str, Any]]]:
    bound = bind(house.app.openapi(), TOOLS)
    return [(tool.name, dict.fromkeys(bound[tool.name].path_names, "x")) for tool in CHANGING]


@pytest.mark.parametrize("kind", ["agent", "person"])
def test_no_tool_changes_anything_for_a_viewer(house: toys.Running, kind: str) -> None:
    asked = _asked(house)
    assert len(asked) > 60
    answers = called(house, house.token("viewer", kind), asked)
    refused = {name: answer.structured_content["code"] for (name, _), answer in zip(asked, answers, strict=True) if answer.is_error}
    assert refused == {name: "identity.role_too_low" for name, _ in asked}
    assert house.room.store.operations.list(OperationFilter(), limit=5, cursor=None).items == ()


def test_nor_by_another_spelling_or_with_more_fields(house: toys.Running) -> None:
    calls = [
        *((name.upper(), arguments) for name, arguments in _asked(house)[:10]),
        *((name, {**arguments, "role": "admin", "X-InstantStart-Face": "console"}) for name, arguments in _asked(house)),
        *((name, {**arguments, "dry_run": False, "approval": "made-up"}) for name, arguments in _asked(house)),
    ]
    assert all(answer.is_error for answer in called(house, house.token("viewer", "agent"), calls))
    assert house.room.store.operations.list(OperationFilter(), limit=5, cursor=None).items == ()


def test_what_an_administrator_alone_may_do_no_agent_does(house: toys.Running) -> None:
    """Of the admin set an operator's agent is refused, or is told that the plan and then a person come first."""
    admin = {tool.name for tool in TOOLS if tool.toolset is Toolset.admin}
    asked = [(name, arguments) for name, arguments in _asked(house) if name in admin]
    for (name, _), answer in zip(asked, called(house, house.token("operator", "agent"), asked), strict=True):
        assert answer.is_error, name


def test_no_tool_hands_out_a_credential(house: toys.Running) -> None:
    """By the shapes of their answers: what gives a credential is no tool, and says why."""
    document = house.app.openapi()
    tools = {tool.name for tool in TOOLS}
    for name, method, _, operation in routes(document):
        answer: Any = next((operation["responses"][code] for code in ("200", "201", "202") if code in operation["responses"]), {})
        named = set(_properties(answer, document, set()))
        power = {each for each in named if _POWER.search(each)}
        assert not power or name not in tools, f"{name} answers {power}"
        assert not power or method == "GET" or name in NOT_FOR_AGENTS, name


def _properties(schema: Any, document: dict[str, Any], seen: set[str]) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _properties(each, document, seen)
    elif isinstance(schema, dict):
        reference = schema.get("$ref")
        if reference and reference not in seen:
            seen.add(reference)
            yield from _properties(document["components"]["schemas"][reference.rsplit("/", 1)[1]], document, seen)
        for key, value in schema.items():
            if key == "properties":
                yield from value
            yield from _properties(value, document, seen)


def test_refusals_are_in_the_audit_log_with_who_and_which_face(house: toys.Running) -> None:
    called(house, house.token("viewer", "agent"), [("cluster_forget", {"cluster": "x"})])
    newest = house.room.store.audit.list(AuditFilter()).items[0]
    assert (newest.face, newest.status) == ("mcp", 403)
