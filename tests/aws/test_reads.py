"""The run of everything (slow) can fill in every word of every read: whoever adds a route with a new word is told here, at once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.aws.everything import nameless

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_every_read_can_be_asked_in_the_run_of_everything() -> None:
    assert nameless(json.loads(DOCUMENT.read_text())) == set(), "give it a value in tests/aws/everything.py"
