"""Sequences of requests whose later ones take what earlier ones were answered: a machine that keeps its own account and compares.

Identities and their tokens (make, look, list, change, rotate, keep out, revoke, enter) and saved forms (put, get, list, delete), with
ordinary and hostile words. No answer is our own fault, refusals are problems, and what was answered is what is seen afterwards.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import quote

import httpx2
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test
from tests.breach import hostile
from tests.breach.answers import faults
from tests.breach.ground import Ground

API = "/api/v1"
_WORDS = st.one_of(st.sampled_from(sorted(set(hostile.WORDS.values()) - {hostile.WORDS["half a character"]})), st.text(max_size=90))
_ROLES = st.sampled_from(["viewer", "operator", "admin"])
_FORM_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
_GOOD = (200, 201, 202, 204)


class Sequences(RuleBasedStateMachine):
    """See the module."""

    ground: ClassVar[Ground]
    http: ClassVar[httpx2.Client]
    kind: ClassVar[str]
    identities, forms = Bundle("identities"), Bundle("forms")

    def __init__(self) -> None:
        super().__init__()
        #: what each identity is: its token, its role, whether it may enter
        self.known: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, Any] = {}

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> httpx2.Response:
        """A request whose answer is in order, whatever it says."""
        answer = self.http.request(method, API + path, json=body, headers=headers or self.ground.sign())
        assert list(faults(answer)) == [], (method, path, body, answer.text)
        return answer

    @rule(target=identities, name=_WORDS, role=_ROLES, note=_WORDS)
    def make(self, name: str, role: str, note: str) -> str:
        """Made, or refused because of a word."""
        answer = self.ask("POST", "/tokens", {"name": name, "role": role, "note": note})
        if answer.status_code == 422:
            assert {field["pointer"] for field in answer.json()["fields"]} <= {"/name", "/note"}
            answer = self.ask("POST", "/tokens", {"name": "plain", "role": role})
        assert answer.status_code == 201
        made = answer.json()
        self.known[made["identity"]["id"]] = {"token": made["token"], "role": role, "open": True, "revoked": False}
        return str(made["identity"]["id"])

    @rule(identity=identities)
    def look(self, identity: str) -> None:
        """One shows what the list shows."""
        one = self.ask("GET", f"/tokens/{identity}").json()
        listed = self.ask("GET", f"/tokens?text={identity}").json()["items"]
        assert [each["id"] for each in listed] == [identity]
        assert (one["role"], one["name"], one["revoked_at"]) == (listed[0]["role"], listed[0]["name"], listed[0]["revoked_at"])
        assert one["role"] == self.known[identity]["role"]
        assert (one["revoked_at"] is not None) is self.known[identity]["revoked"]
        assert self.known[identity]["token"] not in str(one)

    @rule(identity=identities)
    def enter(self, identity: str) -> None:
        """With the token that is the newest."""
        known = self.known[identity]
        answer = self.ask("GET", "/me", headers={"Authorization": f"Bearer {known['token']}"})
        assert answer.status_code == (200 if known["open"] else 401) or answer.status_code == 429
        if answer.status_code == 200:
            assert (answer.json()["id"], answer.json()["role"]) == (identity, known["role"])

    @rule(identity=identities, role=_ROLES, keep_out=st.booleans())
    def change(self, identity: str, role: str, keep_out: bool) -> None:
        """At once; not what was revoked."""
        answer = self.ask("PATCH", f"/tokens/{identity}", {"role": role, "disabled": keep_out})
        known = self.known[identity]
        assert answer.status_code == (409 if known["revoked"] else 200), answer.text
        if answer.status_code == 200:
            known |= {"role": role, "open": not keep_out}

    @rule(identity=identities)
    def rotate(self, identity: str) -> None:
        """The old token ends."""
        known = self.known[identity]
        answer = self.ask("POST", f"/tokens/{identity}:rotate", {})
        assert answer.status_code == (409 if known["revoked"] else 200), answer.text
        if answer.status_code == 200:
            old, known["token"] = known["token"], answer.json()["token"]
            assert self.ask("GET", "/me", headers={"Authorization": f"Bearer {old}"}).status_code in (401, 429)

    @rule(identity=identities)
    def revoke(self, identity: str) -> None:
        """For good; once more is no harm."""
        assert self.ask("DELETE", f"/tokens/{identity}").status_code in _GOOD
        self.known[identity] |= {"open": False, "revoked": True}

    @rule(target=forms, name=_FORM_NAMES, word=_WORDS)
    def save(self, name: str, word: str) -> str:
        """What was put is what is got."""
        answer = self.ask("PUT", f"/saved-forms/{self.kind}/{name}", {"content": {"name": word}})
        if answer.status_code in _GOOD:
            self.kept[name] = {"name": word}
        return name

    @rule(name=forms)
    def read(self, name: str) -> None:
        """There, or not any more."""
        answer = self.ask("GET", f"/saved-forms/{self.kind}/{name}")
        assert answer.status_code == (200 if name in self.kept else 404), answer.text
        if answer.status_code == 200:
            assert answer.json()["content"] == self.kept[name]

    @rule(name=consumes(forms))
    def drop(self, name: str) -> None:
        """Once."""
        assert self.ask("DELETE", f"/saved-forms/{self.kind}/{name}").status_code == (204 if name in self.kept else 404)
        self.kept.pop(name, None)

    @rule(word=_WORDS)
    def stray(self, word: str) -> None:
        """An id that nobody was given."""
        place = quote(word.encode("utf-8", "replace"), safe="") or "nobody"
        for method in ("GET", "DELETE"):
            assert self.ask(method, f"/tokens/{place}").status_code in (404, 405, 422)

    @invariant()
    def the_forms_listed_are_those_that_are_kept(self) -> None:
        """Whatever was done."""
        listed = self.ask("GET", "/saved-forms").json()["items"]
        assert set(self.kept) <= {each["name"] for each in listed}

    def teardown(self) -> None:
        """The next begins with nothing of this one."""
        for identity in self.known:
            self.ask("DELETE", f"/tokens/{identity}")
        for name in self.kept:
            self.ask("DELETE", f"/saved-forms/{self.kind}/{name}")


def run(ground: Ground, examples: int, steps: int, kind: str = "training_job") -> None:
    """So many sequences of so many requests. Raises what hypothesis does for the shortest wrong one."""
    with httpx2.Client(base_url=ground.url, timeout=60) as http:
        machine = type("Bound", (Sequences,), {"ground": ground, "http": http, "kind": kind})
        chosen = settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        run_state_machine_as_test(machine, settings=chosen)
