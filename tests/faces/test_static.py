"""The console's files: what is there, what is not, and never anything outside their folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.faces import toys


@pytest.fixture
def console(tmp_path: Path) -> Iterator[TestClient]:
    """A house whose console is built, with a secret beside its folder."""
    web = tmp_path / "web"
    (web / "assets").mkdir(parents=True)
    (web / "index.html").write_text("<title>console</title>")
    (web / "assets" / "app-1a2b.js").write_text("console.log(1)")
    (tmp_path / "secret.txt").write_text("secret")
    (web / "link.txt").symlink_to(tmp_path / "secret.txt")
    app, room = toys.house(tmp_path / "data", web=web)
    with TestClient(app, base_url=toys.HOST) as client:
        yield client
    room.store.close()


@pytest.mark.parametrize("path", ["/", "/login", "/clusters/hypd-1", "/operations/op_1?x=1", "/link.txt", "/%2e%2e/secret.txt"])
def test_the_consoles_own_addresses_answer_its_page(console: TestClient, path: str) -> None:
    answer = console.get(path)
    assert answer.status_code == 200
    assert answer.text == "<title>console</title>"
    assert answer.headers["cache-control"] == "no-cache"


def test_an_asset_is_kept_for_ever_and_a_missing_one_is_not_there(console: TestClient) -> None:
    there = console.get("/assets/app-1a2b.js")
    assert there.text == "console.log(1)"
    assert "immutable" in there.headers["cache-control"]
    assert console.get("/assets/none.js").status_code == 404
    assert console.get("/assets/../../secret.txt").text != "secret"


def test_without_a_build_the_page_says_how_to_build(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "make ui" in answer.text
