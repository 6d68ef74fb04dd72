"""Who may do what, asked of a running server and compared with the table that a person has read."""

from __future__ import annotations

import pytest
from tests.breach import access
from tests.breach.ground import Ground

from instantstart.faces.mcp import catalog


def test_the_server_answers_as_the_table_says(bare: Ground) -> None:
    """Case 86: read-only has no hole."""
    assert access.outdated(access.read(access.TABLE.read_text()), access.asked(bare, whole=False)) == []


@pytest.mark.slow
def test_the_server_answers_as_the_table_says_through_every_face(bare: Ground) -> None:
    """Case 86, commands and all tools as well: make access writes the table anew."""
    seen = access.read(access.written(access.asked(bare)))
    assert list(access.differences(access.read(access.TABLE.read_text()), seen)) == []


def test_the_table_has_every_route_tool_and_command(bare: Ground) -> None:
    rows = access.read(access.TABLE.read_text())
    described = {told["operationId"] for methods in bare.plane.document()["paths"].values() for told in methods.values()}
    spoken = {words for words, _ in access.commands() if not access.is_local(words)}
    assert set(rows) == {
        *(f"rest {name}" for name in described),
        *(f"mcp {tool.name}" for tool in catalog.TOOLS),
        *(f"cli {words}" for words in spoken),
    }
    assert [name for name, answers in rows.items() if any(said.startswith("unasked") for said in answers.values())] == []


def test_nobody_gets_in_and_no_agent_reaches_the_admin_floor_or_a_credential() -> None:
    """Cases 87 and 91."""
    rows = access.read(access.TABLE.read_text())
    open_to_all = {name for name, answers in rows.items() if any(answers[caller] == "yes" for caller in access.NOBODIES)}
    assert open_to_all <= {"rest health_get", "rest readiness_get", "rest session_create", "rest sign_in_get", "rest sign_in_begin"}
    for name, answers in rows.items():
        agent, person = answers["operator-agent"], answers["operator"]
        if person == "no":
            assert agent in ("no", "asks"), name
        if any(word in name for word in ("token", "audit", "support", "identit", "approve", "reject")):
            assert agent == "no", name
    for handed_out in ("mlflow_open", "object_link", "hub_token_put"):
        assert rows[f"rest {handed_out}"]["operator-agent"] == "no"
    for credential in ("mlflow_open", "object_link", "hub_token_put", "token_create", "session_create"):
        assert credential not in {tool.name for tool in catalog.TOOLS}
