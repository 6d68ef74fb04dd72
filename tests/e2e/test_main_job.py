"""The main job in the console: an empty account becomes a verified cluster and is empty again, whatever dies meanwhile."""

from __future__ import annotations

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect
from tests.e2e.conftest import ControlPlane

_LONG_MS = 180_000
TAG = "console-1"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_is_made_and_deleted_through_a_reload_and_a_killed_server(console: Page, server: ControlPlane) -> None:
    _ask_for_a_cluster(console, server)
    address = console.url
    done = console.locator("[data-stage][data-status=done]")
    expect(done.first).to_be_visible(timeout=_LONG_MS)
    console.reload()
    expect(console).to_have_url(address)
    expect(done.first).to_be_visible()
    _is_cancelled_and_goes_on(console)
    _survives_a_kill(console, server)
    _ends_well(console)
    expect(console.get_by_text("verified", exact=False).first).to_be_visible()
    messages = _messages(console)
    assert len(messages) == len(set(_sequence(server, address))) > 20
    _is_shown_whole(console, server)
    _its_logs_outlive_a_kill(console, server)
    _is_deleted_with_friction(console, server)


def _ask_for_a_cluster(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/create")
    console.get_by_label("Tag").fill(TAG)
    console.get_by_label("Instance type").fill("ml.g5.8xlarge")
    console.keyboard.press("Escape")
    console.get_by_role("button", name="Zone").click()
    console.get_by_role("option").filter(has_text="offers ml.g5.8xlarge").first.click()
    expect(console.get_by_role("button", name="Create cluster")).to_be_disabled()
    console.get_by_role("button", name="Run preflight").click()
    expect(console.get_by_role("list", name="Findings of the preflight").locator("[data-check=instance_quota]")).to_be_visible()
    console.get_by_role("button", name="Create cluster").click()
    expect(console.get_by_role("heading", name=f"Create a cluster: {TAG}")).to_be_visible()


def _is_cancelled_and_goes_on(console: Page) -> None:
    console.get_by_role("button", name="Cancel operation").click()
    console.get_by_role("dialog").get_by_role("button", name="Cancel operation").click()
    expect(console.get_by_text("Ended", exact=True).last).to_be_visible()
    console.get_by_role("button", name="Retry").click()
    expect(console.get_by_text("Live", exact=True)).to_be_visible()
    expect(console.locator("[data-status=running], [data-status=waiting]").first).to_be_visible()


def _survives_a_kill(console: Page, server: ControlPlane) -> None:
    server.kill()
    expect(console.get_by_text("The server is away, reconnecting").first).to_be_visible(timeout=15_000)
    server.start()
    expect(console.get_by_text("The server is away, reconnecting")).to_have_count(0, timeout=30_000)
    expect(console.get_by_text("Live", exact=True)).to_be_visible()


def _ends_well(console: Page) -> None:
    expect(console.get_by_text("Ended", exact=True).last).to_be_visible(timeout=_LONG_MS)
    expect(console.get_by_text("Succeeded").first).to_be_visible()


def _messages(console: Page) -> list[Locator]:
    return console.get_by_role("table", name="Events of the operation").get_by_role("rowheader").all()


def _sequence(server: ControlPlane, address: str) -> list[int]:
    """The sequence of every event, as REST tells it."""
    url = f"{server.url}/api/v1/operations/{address.rsplit('/', 1)[1]}/events"
    answer = httpx2.get(url, params={"limit": 500}, headers={"Authorization": f"Bearer {server.token}"})
    return [event["seq"] for event in answer.json()["items"]]


def _is_shown_whole(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters")
    row = console.get_by_role("row").filter(has_text=TAG)
    expect(row).to_contain_text("Ready")
    expect(row).to_contain_text("1/1 ml.g5.8xlarge")
    row.get_by_role("link", name=TAG).click()
    expect(console.get_by_role("heading", name="Stages (5/5)")).to_be_visible()
    console.get_by_role("tab", name="Nodes").click()
    expect(console.get_by_role("heading", name="Nodes (1/1 ready)")).to_be_visible()
    console.get_by_role("tab", name="Storage").click()
    expect(console.get_by_text("Bound", exact=True)).to_be_visible()
    console.get_by_role("tab", name="Operations").click()
    expect(console.get_by_role("link", name="Create a cluster")).to_be_visible()
    console.get_by_role("tab", name="Events").click()
    expect(console.get_by_role("table", name="Events of the cluster").get_by_text("hyperpod", exact=True).first).to_be_visible()
    console.reload()
    expect(console.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")


def _its_logs_outlive_a_kill(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/{TAG}?tab=logs&namespace=kube-system&selector=k8s-app%3Dkube-dns")
    lines = console.get_by_role("log").locator(".is-log-row")
    expect(lines.filter(has_text="this container is simulated")).to_have_count(2)
    expect(console.get_by_text("Live", exact=True)).to_be_visible()
    server.kill()
    expect(console.get_by_text("Connection lost, trying again")).to_be_visible()
    server.start()
    expect(console.get_by_text("Live", exact=True)).to_be_visible()
    expect(lines.filter(has_text="this container is simulated")).to_have_count(2)  # taken up where it was: nothing twice
    console.get_by_label("Find in the logs").fill("no such words")
    console.keyboard.press("Enter")
    expect(lines).to_have_count(0)


def _is_deleted_with_friction(console: Page, server: ControlPlane) -> None:
    console.get_by_role("button", name="Actions").click()
    console.get_by_role("menuitem", name="Delete").click()
    dialog = console.get_by_role("dialog")
    delete = dialog.get_by_role("button", name="Delete")
    expect(dialog.get_by_text("Will be removed")).to_be_visible()
    expect(delete).to_be_disabled()
    dialog.get_by_label(f"Type {TAG} to confirm").fill(TAG[:-1])
    expect(delete).to_be_disabled()
    dialog.get_by_label(f"Type {TAG} to confirm").fill(TAG)
    delete.click()
    expect(console.get_by_role("heading", name=f"Delete the cluster: {TAG}")).to_be_visible()
    _ends_well(console)
    console.goto(f"{server.url}/clusters")
    expect(console.get_by_text("No clusters", exact=True)).to_be_visible()
