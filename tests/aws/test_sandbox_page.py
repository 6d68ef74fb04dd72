"""docs/sandbox.md tells every verb of the admin door, and every service the sandbox answers itself."""

from __future__ import annotations

import re
from pathlib import Path

from instantstart_sandbox.compose import build
from instantstart_sandbox.world import admin

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "sandbox.md").read_text() + (DOCS / "sandbox-services.md").read_text()


def test_every_verb_is_told() -> None:
    sandbox = build(None, rate=1.0)
    sandbox.stop()
    told = set(re.findall(r"`([a-z_/-]+)(?:\?[a-z]+=)?`", PAGES))
    aliases = {"fault", "faults/clear"}
    assert {name for _, name in admin.VERBS} - told - aliases == set()


def test_the_table_names_the_settings_it_speaks_of() -> None:
    from instantstart_sandbox.world.settings import Settings

    known = set(Settings().dump())
    spoken = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", (DOCS / "sandbox.md").read_text()))
    verbs = {name for _, name in admin.VERBS} | {"instance_type", "service_code", "default_capacity"}
    assert {word for word in spoken if word not in known | verbs} == set()


def test_every_unkindness_has_the_tests_that_the_page_names() -> None:
    rows = re.findall(r"^\|(.+)\|$", (DOCS / "sandbox.md").read_text().partition("## Unkind on purpose")[2].partition("\n\n**")[0], re.M)
    assert len(rows) > 12
    for row in rows[2:]:
        named = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", row)
        assert named, row
        for path, test in named:
            assert f"def {test}(" in (DOCS.parent / "tests/sandbox" / path).read_text(), test
