"""What a change was about, for the audit log: the name and id of what its answer says was made, begun or changed; else of its address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: larger answers are lists and contents, not things that were made
_LARGEST = 1024 * 1024
#: fields of an answer that name a thing, the best first
NAMES = ("name", "tag", "secret", "worker", "uncordoned")
#: fields of an operation's request that name what it makes, where its subject is the whole cluster
_PARTS = ("name", "pool", "group", "feature", "claim_name", "nodes")


def target(answer: bytes, values: Mapping[str, Any]) -> str | None:
    """What ``answer`` (JSON) tells of, as ``ada (id-4711)`` or ``training-plan/us-west-2/spring``; else the address' own."""
    return _of_answer(_read(answer)) or of_address(values)


def of_address(values: Mapping[str, Any]) -> str | None:
    """The values of an address, such as ``default/llm``; the cluster alone where nothing else is there."""
    named = [str(value) for key, value in values.items() if key != "cluster"]
    return "/".join(named) or (str(values["cluster"]) if "cluster" in values else None)


def _read(answer: bytes) -> Mapping[str, Any]:
    if not answer or len(answer) > _LARGEST:
        return {}
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, Mapping) else {}


def _of_answer(told: Mapping[str, Any]) -> str | None:
    if "workflow" in told and "subject" in told:
        return _of_operation(str(told["subject"]), told.get("spec") or {})
    if isinstance(told.get("identity"), Mapping):
        told = told["identity"]
    name = next((worded for field in NAMES if (worded := _worded(told.get(field)))), None)
    if name and isinstance(told.get("namespace"), str):
        name = f"{told['namespace']}/{name}"
    its_id = told.get("id")
    if isinstance(its_id, str) and its_id:
        return f"{name} ({its_id})" if name else its_id
    return name


def _of_operation(subject: str, spec: Mapping[str, Any]) -> str:
    """The subject, and what in it is made where it does not say so itself."""
    whole = len(subject.split("/")) <= 3 or subject.endswith("/features")
    part = next((worded for field in _PARTS if (worded := _worded(spec.get(field)))), None) if whole else None
    return subject if part is None or part in subject.split("/") else f"{subject}: {part}"


def _worded(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value if isinstance(each, str)) or None
    return value if isinstance(value, str) and value else None
