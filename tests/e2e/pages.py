"""Every page of the console by its address, and what a browser says of the lists on it."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

TABS = (
    "overview", "groups", "nodes", "karpenter", "features", "inference", "storage", "training", "mlflow", "logs", "operations", "events",
    "diagnosis",
)  # fmt: skip
OUTER = ("clusters", "clusters/create", "clusters/import", "operations", "training-plans", "audit", "sessions", "tokens")
INNER = ("submit-job", "deploy-model", "make-pool", "create-endpoint")

#: each button in a row that is outside of the window, or behind the edge of what scrolls; and by how much each list is too wide
_LOOK = """() => [...document.querySelectorAll("table")].filter((each) => each.offsetParent).map((table) => {
  const behind = (box, element) => {
    if (box.right > innerWidth + 1 || box.left < -1) return true;
    for (let each = element.parentElement; each; each = each.parentElement) {
      if (!/auto|scroll|hidden|clip/.test(getComputedStyle(each).overflowX)) continue;
      const edge = each.getBoundingClientRect();
      if (box.right > edge.right + 2 || box.left < edge.left - 2) return true;
    }
    return false;
  };
  const buttons = [...table.querySelectorAll("tbody button")].filter((each) => each.offsetParent);
  let scroller = table.parentElement;
  while (scroller && !/auto|scroll/.test(getComputedStyle(scroller).overflowX)) scroller = scroller.parentElement;
  return {
    name: table.getAttribute("aria-label"),
    buttons: buttons.length,
    lost: buttons.filter((each) => behind(each.getBoundingClientRect(), each)).map((each) => each.ariaLabel || each.innerText),
    over: scroller ? scroller.scrollWidth - scroller.clientWidth : 0,
  };
})"""


def addresses(tag: str) -> list[str]:
    """All pages, with those of a cluster."""
    return [*OUTER, *(f"clusters/{tag}?tab={tab}" for tab in TABS), *(f"clusters/{tag}/{page}" for page in INNER), "no/such/page"]


def open_page(page: Page, url: str) -> None:
    """Go there and wait until it is drawn and has read what it shows."""
    page.goto(url)
    expect(page.locator("main :is(h1, h2):visible").first).to_be_visible()
    expect(page.locator("main [class*=awsui_spinner], main table [class*=awsui_loading]")).to_have_count(0)


def lists(page: Page) -> list[dict[str, Any]]:
    """The lists of the page: ``name``, ``buttons`` in their rows, those that are ``lost``, pixels ``over`` the width."""
    found: list[dict[str, Any]] = page.evaluate(_LOOK)
    return found
