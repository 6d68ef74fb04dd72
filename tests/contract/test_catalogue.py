"""The laws of the doors, checked on the real app: roles, names, problems, and the catalogue of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import tokens

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.faces.api.auth import ANONYMOUS
from instantstart.faces.api.openapi import api_routes, role_of
from instantstart.faces.mcp import hints, projections
from instantstart.faces.mcp.catalog import DEFAULT, NOT_FOR_AGENTS, TOOLS, chosen
from instantstart.faces.mcp.schemas import bind, routes
from instantstart.faces.mcp.tool import Effect, Shape, Toolset

MUTATING = ("POST", "PUT", "PATCH", "DELETE")
#: POST only because its question is long
ASKS_ONLY = {"preflight_run", "training_job_preview", "training_log_rules_try"}
BUDGET_TOKENS = 5000
#: names of fields that are sentences
SENTENCES = re.compile(r"(^|_)(message|because|reasons?|why|told|trouble|text|error|stderr|output|said|last_words|description)$")
#: of these, what is written by us alone (a diagnosis quotes others in untrusted_text)
OUR_WORDS = {"description", "text"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The real app; its engine is not launched."""
    room = main.compose(Settings(data_dir=tmp_path_factory.mktemp("data"), region="us-west-2"))
    yield main.application(room)
    room.store.close()


@pytest.fixture(scope="module")
def openapi(app: Any) -> dict[str, Any]:
    """Its description."""
    return app.openapi()  # type: ignore[no-any-return]


def test_every_mutating_route_is_a_tool_or_says_why_not(openapi: dict[str, Any]) -> None:
    tools = {tool.name for tool in TOOLS}
    mutating = {name for name, method, _, _ in routes(openapi) if method in MUTATING}
    assert mutating - tools - set(NOT_FOR_AGENTS) == set()
    assert set(NOT_FOR_AGENTS) <= mutating, "reasons for routes that are gone"
    assert all(len(reason.split()) >= 3 for reason in NOT_FOR_AGENTS.values())
    assert not tools & set(NOT_FOR_AGENTS)


def test_every_tool_has_its_route_and_its_effect_is_the_methods(openapi: dict[str, Any]) -> None:
    methods = {name: method for name, method, _, _ in routes(openapi)}
    for tool in TOOLS:
        assert tool.name in methods, f"{tool.name} has no route"
        reads = methods[tool.name] == "GET" or tool.name in ASKS_ONLY
        assert reads == (tool.effect is Effect.reads), tool.name


def test_every_changing_tool_names_a_reading_tool_that_tells_the_end() -> None:
    by_name = {tool.name: tool for tool in TOOLS}
    for tool in TOOLS:
        if tool.effect is Effect.reads:
            continue
        assert tool.status_tool is not None, tool.name
        assert by_name[tool.status_tool].effect is Effect.reads
        assert tool.status_tool in tool.description


def test_reading_tools_are_the_read_set_and_destroying_ones_are_marked(app: Any) -> None:
    """Case 90: the hints tell tools apart."""
    roles = {r.operation_id: role_of(r) for r in api_routes(app)}
    for tool in TOOLS:
        assert (tool.effect is Effect.reads) == (tool.toolset is Toolset.read), tool.name
        assert (tool.toolset is Toolset.admin) == (roles[tool.name] == "admin"), tool.name
        assert (tool.toolset is Toolset.read) == (roles[tool.name] == "viewer"), tool.name


def test_schemas_are_flat_and_lean(openapi: dict[str, Any]) -> None:
    for name, route in bind(openapi, TOOLS).items():
        text = json.dumps(route.schema)
        assert "$ref" not in text, name
        assert '"title"' not in text, name
        assert '"null"' not in text, name
        assert "Idempotency-Key" not in text, name
        for argument, schema in route.schema["properties"].items():
            assert "description" in schema, f"{name}.{argument} is not described"
            assert "properties" not in schema, f"{name}.{argument} is nested"


def _wire(openapi: dict[str, Any]) -> str:
    from instantstart.faces.mcp.server import _wire

    bound = bind(openapi, TOOLS)
    tools = [_wire(tool, bound[tool.name]).model_dump(by_alias=True, exclude_none=True, mode="json") for tool in chosen(DEFAULT)]
    return json.dumps({"tools": tools}, separators=(",", ":"))


def test_listing_the_default_tools_fits_the_budget(openapi: dict[str, Any]) -> None:
    """As the o200k encoding counts; where no tokenizer is, by an estimate that errs on the side of too many."""
    (counted,) = tokens.count([_wire(openapi)])
    assert counted <= BUDGET_TOKENS, tokens.how()


def test_the_hints_tell_tools_apart_and_are_true(openapi: dict[str, Any]) -> None:
    """All four are said (the protocol's own defaults are the worst of each), and what repeats or reaches out is named with what."""
    told = {tool.name: hints.of(tool) for tool in TOOLS}
    changing = {name: hint for name, hint in told.items() if not hint.read_only_hint}
    assert {name for name, hint in told.items() if hint.read_only_hint} == {t.name for t in TOOLS if t.effect is Effect.reads}
    assert all(hint.open_world_hint is not None for hint in told.values())
    assert all(None not in (hint.destructive_hint, hint.idempotent_hint) for hint in changing.values())
    destroying = {name for name, hint in changing.items() if hint.destructive_hint}
    assert destroying == {t.name for t in TOOLS if t.effect is Effect.destroys}
    assert len(destroying) < len(changing) / 2, "a warning on everything warns of nothing"
    deleting = {name for name, method, _, _ in routes(openapi) if method == "DELETE"} & set(told)
    assert deleting <= destroying
    assert set(hints.AGAIN) <= set(changing)
    assert not {name for name in hints.AGAIN if name.endswith(("_delete", "_update", "_select", "_configure"))}
    assert set(hints.OUTSIDE) <= set(told)


def test_free_text_of_others_is_marked_in_every_answer(openapi: dict[str, Any]) -> None:
    """A field that by its name is a sentence is marked as untrusted on its way to a model, or is known to be our own words."""
    for name, _, _, operation in routes(openapi):
        tool = next((each for each in TOOLS if each.name == name), None)
        if tool is None or tool.shape is not Shape.compact:
            continue  # the other shapes mark by hand; tests/faces/test_projections.py
        answer = operation["responses"].get("200", {})
        sentences = {each for each in properties(answer, openapi, set()) if SENTENCES.search(each)} - OUR_WORDS
        marked = projections.compact(dict.fromkeys(sentences, "x"))
        assert all(key.startswith("untrusted_") for key in marked), (name, sorted(marked))


def properties(schema: Any, openapi: dict[str, Any], seen: set[str]) -> Iterator[str]:
    """Every name of a field under ``schema``."""
    if isinstance(schema, list):
        for each in schema:
            yield from properties(each, openapi, seen)
    elif isinstance(schema, dict):
        reference = schema.get("$ref", "").rsplit("/", 1)[-1]
        if reference and reference not in seen:
            seen.add(reference)
            yield from properties(openapi["components"]["schemas"][reference], openapi, seen)
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from properties(value, openapi, seen)


def test_every_route_asks_for_a_role_or_is_a_known_anonymous_one(app: Any, openapi: dict[str, Any]) -> None:
    addresses = {name: (method, path) for name, method, path, _ in routes(openapi)}
    without = {addresses[r.operation_id] for r in api_routes(app) if r.operation_id and role_of(r) is None}
    assert without == set(ANONYMOUS)
    assert len(addresses) >= 25


def test_every_operation_id_is_noun_verb_and_used_once(openapi: dict[str, Any]) -> None:
    names = [name for name, _, _, _ in routes(openapi)]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z]+)+", name)] == []


def test_every_mutating_route_needs_more_than_a_viewer_unless_it_only_asks(app: Any, openapi: dict[str, Any]) -> None:
    mutating = {name for name, method, _, _ in routes(openapi) if method in MUTATING}
    own = {"session_create", "session_delete", "session_revoke", "identity_sessions_revoke"}  # the routes look whose it is
    low = {r.operation_id for r in api_routes(app) if r.operation_id in mutating and role_of(r) in (None, "viewer")}
    assert low == own | ASKS_ONLY


def test_errors_are_documented_as_problems_and_long_work_as_an_address(openapi: dict[str, Any]) -> None:
    for name, _, _, operation in routes(openapi):
        answers = operation["responses"]
        for status, answer in answers.items():
            if status.startswith(("4", "5")):
                assert list(answer["content"]) == ["application/problem+json"], f"{name} {status}"
        assert {"401", "403", "422", "500"} <= set(answers), name
        if "202" in answers:
            assert "Location" in answers["202"]["headers"], name
    assert "HTTPValidationError" not in openapi["components"]["schemas"]


def test_request_bodies_are_strict_and_every_field_is_described(openapi: dict[str, Any]) -> None:
    for name, _, _, operation in routes(openapi):
        if "requestBody" not in operation:
            continue
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = openapi["components"]["schemas"][reference.rsplit("/", 1)[1]]
        assert schema["additionalProperties"] is False, name
        for field, described in schema["properties"].items():
            assert "description" in json.dumps(described), f"{name}.{field}"


def test_the_agents_files_allow_reading_tools_only_without_asking() -> None:
    files = sorted((Path(__file__).parents[2] / "agents").glob("*.json"))
    assert len(files) >= 3
    reading = {tool.name for tool in TOOLS if tool.effect is Effect.reads}
    for file in files:
        described = json.loads(file.read_text())
        assert "instantstart" in described["mcpServers"], file.name
        allowed = {name.removeprefix("@instantstart/") for name in described.get("allowedTools", ())}
        assert allowed in (set(), reading), file.name
        assert "ist_" not in file.read_text()


def test_every_shape_of_the_api_has_a_name_of_its_own(openapi: dict[str, Any]) -> None:
    """Two of one name would be told apart by their modules, and every generated client would bear those names."""
    assert [name for name in openapi["components"]["schemas"] if "__" in name] == []
