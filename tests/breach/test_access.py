"""Who may do what, asked of a running server and compared with the table that a person has read."""

from __future__ import annotations

import pytest
from tests.breach import access, entrances, sequences
from tests.breach.ground import Ground

from instantstart.faces.mcp import catalog


def test_the_server_answers_as_the_table_says(bare: Ground) -> None:
    """Case 86: read-only has no hole."""
    assert access.outdated(access.read(access.TABLE.read_text()), access.asked(bare, whole=False)) == []


def wrongly_entered(ground: Ground, every: int) -> list[str]:
    """Where a way in was open that should be closed, or the other way round: one in ``every`` routes for each, others for the next."""
    matrix = access.read(access.TABLE.read_text())
    paths = ground.plane.document()["paths"]
    reading = frozenset(f"rest {told['get']['operationId']}" for told in paths.values() if "get" in told)
    wrong = []
    for number, entrance in enumerate(entrances.entrances(ground)):
        due = entrances.expected(entrance, matrix, reading)
        seen = dict(entrances.answers(ground, entrance, slice(number % every, None, every)))
        wrong += [f"{entrance.name}: {row} says {said}" for row, said in seen.items() if said != due.get(row, "no")]
    return wrong


def test_a_cookie_opens_what_its_token_does_from_its_own_page_only_and_what_has_ended_opens_nothing(bare: Ground) -> None:
    """Cases 86 and 88: routes, sockets and MCP."""
    assert wrongly_entered(bare, every=7) == []


@pytest.mark.slow
def test_the_same_of_every_route(bare: Ground) -> None:
    """Cases 86 and 88."""
    assert wrongly_entered(bare, every=1) == []


@pytest.mark.slow
def test_the_server_answers_as_the_table_says_through_every_face(bare: Ground) -> None:
    """Case 86, commands and all tools as well: make access writes the table anew."""
    seen = access.read(access.written(access.asked(bare)))
    assert list(access.differences(access.read(access.TABLE.read_text()), seen)) == []


def test_what_was_answered_is_what_is_seen_afterwards(bare: Ground) -> None:
    """Identities and saved forms, in drawn sequences."""
    sequences.run(bare, examples=4, steps=15)


@pytest.mark.slow
def test_the_same_at_length(bare: Ground) -> None:
    """Also part of make fuzz."""
    sequences.run(bare, examples=100, steps=40)


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
