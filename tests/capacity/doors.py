"""REST calls of an administrator, and operations begun through the door but turned by hand: virtual time passes only when a stage waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.workflows import WORKFLOWS
from instantstart.operations.declare import Workflow

GROUPS = "/clusters/standing/instance-groups"


class Door:
    """REST calls of an administrator."""

    def __init__(self, client: TestClient, token: str) -> None:
        self.client, self.headers = client, {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The whole answer."""
        return self.client.request(method, f"/api/v1{path}", json=body, headers=self.headers, params=query)

    def get(self, path: str, **query: Any) -> Any:
        """The document of a read that succeeds."""
        return self.well(200, "GET", path, **query)

    def well(self, status: int, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The document of a call that is answered as expected."""
        answer = self.call(method, path, body, **query)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refusal(self, status: int, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """The problem of a call that is refused."""
        told: dict[str, Any] = self.well(status, method, path, body, **query)
        assert {"code", "title", "detail", "kind", "status"} <= set(told)
        return told

    def pointers(self, method: str, path: str, body: Any, status: int = 422) -> set[str]:
        """The fields that a refused call is refused for."""
        return {f["pointer"] for f in self.refusal(status, method, path, body).get("fields", ())}


def workflow(name: str) -> Workflow:
    """The declaration of that name."""
    return next(w for w in WORKFLOWS if w.name == name)


def turn(crank: Crank, name: str, /, until: Any = None, **spec: Any) -> Turned:
    """An operation turned by hand on the cluster that stands."""
    declared = workflow(name)
    return crank.run(declared, declared.spec(tag="standing", region="us-west-2", **spec), until)


def received(sandbox: SandboxProcess, operation: str) -> list[dict[str, Any]]:
    """What SageMaker was asked, as it came over the wire."""
    return [r["params"] for r in sandbox.ask("received") if r["operation"] == operation]


@contextmanager
def counted(sandbox: SandboxProcess, operation: str) -> Iterator[list[dict[str, Any]]]:
    """The requests of one operation that come within the block."""
    before, found = len(received(sandbox, operation)), []  # type: tuple[int, list[dict[str, Any]]]
    yield found
    found.extend(received(sandbox, operation)[before:])
