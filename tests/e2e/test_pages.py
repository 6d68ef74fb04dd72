"""Every page with a ready cluster: what can be done with a row is in reach, and others' names are text."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.e2e import pages
from tests.e2e.conftest import Ready

HOSTILE = ("<img src=x onerror=alert(1)>", "\u202eevil gnp.exe", "x" * 64, "مرحبا")


@pytest.fixture(scope="module")
def crowded(ready: Ready) -> Ready:
    """With people whose names are long, hostile or written from right to left."""
    for name in HOSTILE:
        ready.call("POST", "/tokens", {"name": name, "role": "viewer", "kind": "person", "note": "why this one may enter " * 8})
    return ready


#: pixels that a list at the common width leaves to spare: another machine's fonts and a longer word are some pixels wider
SPARE = 40
COMMON = 1280


@pytest.mark.parametrize("width", [COMMON - SPARE, pytest.param(900, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)  # with the world made before it, on a busy machine
def test_what_can_be_done_with_a_row_is_in_reach_on_every_page(crowded: Ready, page: Page, complaints: list[str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    crowded.sign_in(page)
    buttons, lost, wide = 0, [], []
    for address in pages.addresses(crowded.tag):
        pages.open_page(page, f"{crowded.url}/{address}")
        for each in pages.lists(page):
            buttons += each["buttons"]
            lost += [(address, each["name"], one) for one in each["lost"]]
            wide += [(address, each["name"], each["over"])] if each["over"] > 0 else []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
    assert lost == []
    assert buttons > 10
    if width >= COMMON - SPARE:
        assert wide == []  # narrower, a list may scroll under its acts


def test_names_of_others_are_text_that_cannot_be_read_as_another(crowded: Ready, page: Page, complaints: list[str]) -> None:
    crowded.sign_in(page)
    pages.open_page(page, f"{crowded.url}/tokens")
    for name in (*HOSTILE[:1], "[U+202E]evil gnp.exe", *HOSTILE[2:]):
        expect(page.get_by_role("rowheader", name=name, exact=True)).to_be_visible()
    assert page.locator("main img").count() == 0


def test_the_columns_of_a_list_are_chosen_and_remembered(crowded: Ready, page: Page, complaints: list[str]) -> None:
    crowded.sign_in(page)
    pages.open_page(page, f"{crowded.url}/tokens")
    expect(page.get_by_role("columnheader", name="Note")).to_have_count(0)
    page.get_by_role("button", name="Preferences").click()
    page.get_by_role("dialog").get_by_label("Note", exact=True).check()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("columnheader", name="Note")).to_be_visible()
    page.reload()
    expect(page.get_by_role("columnheader", name="Note")).to_be_visible()


def test_a_page_that_is_not_there_says_so(crowded: Ready, page: Page, complaints: list[str]) -> None:
    crowded.sign_in(page)
    pages.open_page(page, f"{crowded.url}/no/such/page")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="To the clusters").click()
    expect(page).to_have_url(f"{crowded.url}/clusters")
