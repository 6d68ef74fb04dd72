"""The checked-in policies, filled in for a place as an administrator would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy" / "iam"


def templates() -> dict[str, dict[str, Any]]:
    """The policies of deploy/iam by name, their ``${...}`` still in them."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def filled(region: str, partition: str, account: str = "123456789012") -> dict[str, dict[str, Any]]:
    """The policies for one account, region and partition."""
    return {name: fill(document, region, partition, account) for name, document in templates().items()}


def fill(document: dict[str, Any], region: str, partition: str, account: str = "123456789012") -> dict[str, Any]:
    """One document with its ``${...}`` replaced."""
    text = json.dumps(document)
    for name, value in (("Partition", partition), ("Region", region), ("Account", account)):
        text = text.replace("${" + name + "}", value)
    made: dict[str, Any] = json.loads(text)
    return made
