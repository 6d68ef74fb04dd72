"""Every shape a request may be refused for is told in words."""

from __future__ import annotations

import json
import re

from tests.contract.sources import ROOT

from instantstart.base import patterns


def test_every_pattern_of_the_api_has_words() -> None:
    document = (ROOT / "docs" / "openapi.json").read_text()
    used = {json.loads(f'"{found}"') for found in re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', document)}
    assert used
    assert used <= set(patterns.WORDS)
