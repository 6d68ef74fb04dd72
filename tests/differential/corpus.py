"""Scenarios as YAML: steps that are sent to a side, and what it answered, made comparable.

A step is one request, in the order given::

    - do: POST /api/v1/namespaces/{ns}/configmaps?fieldManager=one
      body: {metadata: {name: a}}      # JSON; or `text:` for a body as it stands
      as: apply                        # json (default), merge, json-patch, strategic, apply, yaml, or a media type
      accept: table                    # table, metadata, or a media type
      keep: {uid: metadata.uid}        # values for later steps, as {uid}
      until: {status.phase: Active}    # repeat (GET only) until the answer holds these values
      not_emulated: why                # the sandbox is not compared here: it does not have this at all
      ask: status                      # compare only the HTTP status and, of errors, reason and details

``{ns}`` is the scenario's own namespace, ``{word}`` a word that no other run uses (for what has no namespace).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml
from tests.differential.normalising import Names, normal

FOLDER = Path(__file__).parent / "corpus"
MEDIA: Final = {
    "json": "application/json",
    "yaml": "application/yaml",
    "merge": "application/merge-patch+json",
    "json-patch": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
ACCEPT: Final = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    "metadata-list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
}
_PATIENCE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Scenario:
    """A sequence of steps in a namespace of its own."""

    file: str
    name: str
    steps: tuple[dict[str, Any], ...]

    @property
    def title(self) -> str:
        return f"{self.file}/{self.name}"


@dataclass
class Run:
    """One side's run of one scenario."""

    client: httpx2.Client
    variables: dict[str, str]
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names({self.variables["ns"]: "<ns>", self.variables["word"]: "<word>"})

    def play(self, scenario: Scenario) -> list[Any]:
        """Every step's answer, comparable. The namespace is made before and taken away after."""
        self.client.post("/api/v1/namespaces", json={"metadata": {"name": self.variables["ns"]}}).raise_for_status()
        self._give_account()
        try:
            return [self.step(step) for step in scenario.steps]
        finally:
            self.client.delete(f"/api/v1/namespaces/{self.variables['ns']}")

    def _give_account(self) -> None:
        """Pods are refused until the namespace has its service account: a reference without controllers never makes one."""
        path = f"/api/v1/namespaces/{self.variables['ns']}/serviceaccounts"
        answer = self.client.post(path, json={"metadata": {"name": "default"}})
        assert answer.status_code in (201, 409), answer.text

    def step(self, step: dict[str, Any]) -> Any:
        """Send one step; answers {"code", "body"}."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = self._send(step)
            body = _decoded(answer)
            found = {path: answer.status_code if path == "http" else _at(body, path) for path in step.get("until", {})}
            if found == step.get("until", {}):
                break
            assert time.monotonic() < deadline, f"{step['do']}: never came to {step['until']}: {body}"
            time.sleep(0.05)
        for word, path in step.get("keep", {}).items():
            self.variables[word] = str(_at(body, path))
        return self._comparable(step, answer.status_code, body)

    def _comparable(self, step: dict[str, Any], code: int, body: Any) -> Any:
        if step.get("ask") == "nothing":
            return {}
        comparable = normal(body, self.names)
        if step.get("ask") == "status":
            chosen = {k: comparable.get(k) for k in ("reason", "details")} if isinstance(comparable, dict) and code >= 400 else {}
            return {"code": code, **chosen}
        return {"code": code, "body": comparable}

    def _send(self, step: dict[str, Any]) -> httpx2.Response:
        method, path = str(step["do"]).split(" ", 1)
        headers = {"Accept": ACCEPT.get(step.get("accept", ""), step.get("accept", "application/json"))}
        content = None
        if "text" in step or "body" in step:
            content = self._fill(step["text"] if "text" in step else json.dumps(step["body"])).encode()
            chosen = step.get("as", "json")
            headers["Content-Type"] = MEDIA.get(chosen, chosen)
        return self.client.request(method, self._fill(path), content=content, headers=headers)

    def _fill(self, text: str) -> str:
        for word, value in self.variables.items():
            text = text.replace("{" + word + "}", value)
        return text


def _decoded(answer: httpx2.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in answer.text.splitlines()]  # a watch
    except ValueError:
        return answer.text


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = _item(value, part)
    return value


def _item(value: Any, part: str) -> Any:
    """A field; of a list the item at a place (``0``) or with a field's value (``type=Ready``)."""
    if not isinstance(value, list):
        return value.get(part) if isinstance(value, dict) else None
    if "=" in part:
        key, wanted = part.split("=", 1)
        return next((v for v in value if v.get(key) == wanted), None)
    return value[int(part)] if int(part) < len(value) else None


def scenarios() -> list[Scenario]:
    """All scenarios of all files."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for name, steps in yaml.load(path.read_text(), Loader=yaml.CSafeLoader).items():
            found.append(Scenario(path.stem, name, tuple(steps)))
    return found
