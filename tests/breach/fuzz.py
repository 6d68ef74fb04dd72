"""Schemathesis on every described route of a real process: ``python -m tests.breach.fuzz`` sends 20,000 requests.

A third of them keep to the document, a third break it, a third have a hostile word in one place. What an answer must be: never our own
fault (no 5xx), a documented status, a body of the documented shape, and for every refusal the one problem shape.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from tests.breach import hostile, sequences
from tests.breach.answers import faults
from tests.breach.ground import Ground, standing

#: the Allow header of two routes at one address is the framework's; a well-formed request may well be refused by the world as it is
LEFT_OUT = ("not_a_server_error", "unsupported_method", "allow_header_conformance", "ignored_auth", "positive_data_acceptance")
TOO_LARGE = (413, 431)
#: it ends the session that asks
NOT_ASKED = ("session_delete",)
_SHOWN_CHARACTERS = 600
HOSTILE = "hostile"
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE, HOSTILE)


@dataclass
class Found:
    """What a run saw. ``findings``: one example of each kind of wrong answer, by route and what was wrong."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    routes: dict[str, Counter[int]] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)

    def note(self, operation: str, status: int) -> None:
        """One answer."""
        self.sent += 1
        self.statuses[status] += 1
        self.routes.setdefault(operation, Counter())[status] += 1

    def wrong(self, operation: str, what: str, example: str) -> None:
        """A wrong answer."""
        if f"{operation}: {what}" not in self.findings:
            self.findings[f"{operation}: {what}"] = example
            sys.stdout.write(f"WRONG {operation}: {what}\n{example}\n\n")
            sys.stdout.flush()


class Fuzz:
    """Requests to one standing ground."""

    def __init__(self, ground: Ground, tags: frozenset[str] = frozenset()) -> None:
        self._ground = ground
        self._session = requests.Session()
        self.headers = ground.sign()
        self._schema = schemathesis.openapi.from_dict(ground.plane.document())
        self._checks = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
        self._tags = tags
        self.found = Found()
        self.canary = hostile.Canary()
        self._words = [*hostile.WORDS.values(), *self.canary.words()]

    def operations(self) -> Iterator[Any]:
        """The routes that are asked."""
        for found in self._schema.exclude(operation_id=list(NOT_ASKED)).get_all_operations():
            operation = found.ok()  # type: ignore[union-attr]
            if not self._tags or self._tags & set(operation.definition.raw.get("tags", ())):
                yield operation

    def round(self, examples: int, seed: int) -> None:
        """So many requests of each mode to each route, fewer where a route has fewer different ones."""
        for operation in self.operations():
            for mode in MODES:
                with contextlib.suppress(Unsatisfiable):  # a route without arguments has no wrong ones
                    self._route(operation, mode, examples, seed)

    def _route(self, operation: Any, mode: Any, examples: int, seed: int) -> None:
        strategy = operation.as_strategy(generation_mode=GenerationMode.POSITIVE if mode is HOSTILE else mode)

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @given(case=strategy, here=st.integers(0, 3), dry=st.integers(0, 31), data=st.data())
        def tried(case: Any, here: int, dry: int, data: Any) -> None:
            if mode is not GenerationMode.NEGATIVE:
                self._aim(case, here < 3, dry < 31)  # the simplest is about the cluster that stands, too
            if mode is HOSTILE:
                self._ask_in_hostile_words(case, data)
            else:
                self._ask(case)

        tried()

    def _aim(self, case: Any, here: bool, dry: bool) -> None:
        """Most well-formed requests are about the cluster that stands, and ask what would be changed instead of changing it."""
        if here and "cluster" in (case.path_parameters or {}):
            case.path_parameters["cluster"] = self._ground.tag
            if "namespace" in case.path_parameters:
                case.path_parameters["namespace"] = "default"
        names = {p.name for p in case.operation.query}
        if dry and "dry_run" in names:
            case.query = {**(case.query or {}), "dry_run": "true"}
        if "wait_seconds" in names:
            case.query = {**(case.query or {}), "wait_seconds": "1"}

    def _ask_in_hostile_words(self, case: Any, data: Any) -> None:
        """A well-formed request with a hostile word at one place."""
        parts: dict[str, Any] = {"json": case.body if isinstance(case.body, (dict, list)) else None}
        parts |= {"params": dict(case.query or {}), "path": dict(case.path_parameters or {})}
        spots = [(name, at) for name, part in parts.items() for at in hostile.places(part)]
        if not spots:
            return
        (name, at), word = data.draw(st.sampled_from(spots)), data.draw(st.sampled_from(self._words))
        if name != "json":  # an address is made of bytes
            word = word.encode("utf-8", "replace").decode()
        parts[name] = hostile.put(parts[name], at, word)
        path = case.operation.path
        for key, value in parts["path"].items():
            path = path.replace("{" + key + "}", quote(str(value), safe=""))
        asked: dict[str, Any] = {"params": parts["params"], "json": parts["json"], "headers": self.headers}
        answer = self._session.request(case.operation.method, self._ground.url + path, timeout=90, **asked)
        operation = str(case.operation.definition.raw["operationId"])
        self.found.note(operation, answer.status_code)
        for what in faults(answer):
            self.found.wrong(operation, what, f"{path} {asked!a}"[:_SHOWN_CHARACTERS] + _told(answer))

    def _ask(self, case: Any) -> None:
        name = str(case.operation.definition.raw["operationId"])
        try:
            answer = case.call(base_url=self._ground.url, headers=self.headers, session=self._session, timeout=90)
        except requests.RequestException as error:
            self.found.wrong(name, f"no answer ({type(error).__name__})", case.as_curl_command())
            return
        self.found.note(name, answer.status_code)
        for what in faults(answer):
            self.found.wrong(name, what, _example(case, answer))
        if answer.status_code in TOO_LARGE:  # a refusal that schemathesis does not count as one
            return
        try:
            case.validate_response(answer, checks=self._checks)
        except BaseExceptionGroup as group:
            for each in group.exceptions:
                self.found.wrong(name, _kind_of(each), f"{each}"[:_SHOWN_CHARACTERS] + "\n" + _example(case, answer))


def _kind_of(failure: BaseException) -> str:
    return f"{type(failure).__name__} {str(failure).partition(chr(10))[0]}"[:100]


def _example(case: Any, answer: Any) -> str:
    return str(case.as_curl_command())[:_SHOWN_CHARACTERS] + _told(answer)


def _told(answer: Any) -> str:
    return f"\n-> {answer.status_code}: {answer.content[:_SHOWN_CHARACTERS].decode(errors='replace')}"


def run(ground: Ground, wanted: int, tags: frozenset[str], seed: int = 1) -> Found:
    """Rounds until ``wanted`` requests were sent."""
    fuzz = Fuzz(ground, tags)
    routes = max(1, sum(1 for _ in fuzz.operations()))
    while fuzz.found.sent < wanted:
        before = fuzz.found.sent
        fuzz.round(max(1, min(40, (wanted - before) // (3 * routes) + 1)), seed)
        seed += 1
        sys.stdout.write(f"{fuzz.found.sent} sent, {dict(sorted(fuzz.found.statuses.items()))}\n")
        sys.stdout.flush()
    if fuzz.canary.heard:
        fuzz.found.wrong("server", f"asked an address of a caller {fuzz.canary.heard} times", "")
    fuzz.canary.close()
    return fuzz.found


def main() -> int:
    """The command. Its status is 1 when a wrong answer was seen."""
    asked = argparse.ArgumentParser(prog="tests.breach.fuzz", description=__doc__)
    asked.add_argument("--requests", type=int, default=20_000, help="How many to send.")
    asked.add_argument("--tags", default="", help="Only routes of these tags, comma separated.")
    asked.add_argument(
        "--sequences", type=int, default=100, help="Sequences of requests, afterwards, whose later ones take earlier answers."
    )
    asked.add_argument("--seed", type=int, default=1, help="Another seed makes other requests.")
    given_ = asked.parse_args()
    tags = frozenset(each for each in given_.tags.split(",") if each)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the processes end with us
    with tempfile.TemporaryDirectory() as folder, standing(Path(folder)) as ground:
        found = run(ground, given_.requests, tags, given_.seed)
        if given_.sequences:
            sequences.run(ground, given_.sequences, steps=40)
    for operation, statuses in sorted(found.routes.items()):
        sys.stdout.write(f"{operation:32} {dict(sorted(statuses.items()))}\n")
    sys.stdout.write(f"{found.sent} requests, {dict(sorted(found.statuses.items()))}, {len(found.findings)} kinds of wrong answers\n")
    sys.stdout.writelines(f"  {each}\n" for each in sorted(found.findings))
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
