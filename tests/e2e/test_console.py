"""What a person does in the console, short of making a cluster."""

from __future__ import annotations

import httpx2
from playwright.sync_api import Browser, Page, expect
from tests.e2e.conftest import ControlPlane, sign_in


def test_the_one_time_link_opens_the_console_and_then_no_more(
    page: Page, server: ControlPlane, complaints: list[str], browser: Browser
) -> None:
    link = server.sign_in_link()
    page.goto(link)
    expect(page).to_have_url(f"{server.url}/clusters")
    expect(page.get_by_role("button", name="Sandbox: AWS is simulated")).to_be_visible()
    other = browser.new_context()
    second = other.new_page()
    second.goto(link)
    expect(second.get_by_text("The sign-in link was used already or has ended.")).to_be_visible()
    assert "code=" not in second.url
    other.close()


def test_a_stranger_is_asked_to_sign_in_and_then_comes_where_he_wanted(page: Page, server: ControlPlane, complaints: list[str]) -> None:
    page.goto(f"{server.url}/operations?status=failed")
    page.get_by_label("Token").fill(server.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{server.url}/operations?status=failed")
    expect(page.get_by_role("heading", name="Operations")).to_be_visible()


def test_an_empty_account_says_what_to_do(console: Page) -> None:
    expect(console.get_by_text("No clusters", exact=True)).to_be_visible()
    console.get_by_role("button", name="Create cluster").last.click()
    expect(console.get_by_role("heading", name="Create cluster")).to_be_visible()


def test_the_servers_refusals_land_on_their_fields(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/create")
    console.get_by_label("Tag").fill("not a tag!")
    console.get_by_role("button", name="Run preflight").click()
    expect(console.get_by_text("zone is required.", exact=True)).to_be_visible()
    expect(console.get_by_text("instance_type is required.", exact=True)).to_be_visible()
    expect(console.get_by_label("Tag")).to_have_attribute("aria-invalid", "true")
    expect(console.get_by_label("Tag")).to_be_focused()
    console.get_by_label("Tag").fill("a-tag")
    expect(console.get_by_label("Tag")).not_to_have_attribute("aria-invalid", "true")


def test_the_form_of_a_training_job_follows_its_framework_and_takes_refusals(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/none/submit-job")
    expect(console.get_by_label("Script", exact=False).first).to_be_visible()
    console.get_by_text("Any container").click()
    expect(console.get_by_label("Command", exact=False).first).to_be_visible()
    console.get_by_role("button", name="Preview").click()
    expect(console.get_by_text("name is required.", exact=True)).to_be_visible()
    expect(console.get_by_text("image is required.", exact=True)).to_be_visible()
    console.locator("input[name=name]").fill("a-job")
    expect(console.get_by_text("name is required.", exact=True)).not_to_be_visible()


def test_the_preflight_shows_what_stands_in_the_way_and_a_job_begun_anyway_stops_there(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/create")
    console.get_by_label("Tag").fill("too-many")
    console.get_by_label("Instance type").fill("ml.p5")
    expect(console.get_by_role("option").filter(has_text="ml.p5.48xlarge").filter(has_text="quota 2")).to_be_visible()
    console.get_by_role("option").filter(has_text="ml.p5.48xlarge").first.click()
    console.get_by_role("button", name="Zone").click()
    console.get_by_role("option").filter(has_text="offers ml.p5.48xlarge").first.click()
    console.get_by_label("Instance count").fill("900")
    console.get_by_role("button", name="Run preflight").click()
    findings = console.get_by_role("list", name="Findings of the preflight")
    expect(findings.locator("[data-level=fail]").first).to_contain_text("900 more are asked")
    expect(console.get_by_role("button", name="Create anyway")).to_be_enabled()
    asked = httpx2.get(f"{server.url}/api/v1/operations", headers={"Authorization": f"Bearer {server.token}"}).json()["items"]
    assert asked == []
    console.get_by_role("button", name="Create anyway").click()
    _stops_with_the_reason(console)
    _waits_for_a_persons_yes(console, server)
    _is_forgotten(console, server)


def _stops_with_the_reason(console: Page) -> None:
    expect(console.get_by_role("button", name="Retry")).to_be_visible()
    expect(console.get_by_text("Preflight failed")).to_be_visible()
    expect(console.get_by_text("Next step: Request an increase in Service Quotas")).to_be_visible()
    expect(console.locator("[data-stage=account][data-status=failed]")).to_be_visible()
    console.get_by_role("button", name="Retry").click()
    expect(console.get_by_text("attempt 2")).to_be_visible()
    expect(console.get_by_role("button", name="Retry")).to_be_visible()


def _waits_for_a_persons_yes(console: Page, server: ControlPlane) -> None:
    """What an agent asks to delete is shown to the administrator, who says no."""
    api = f"{server.url}/api/v1"
    admin = {"Authorization": f"Bearer {server.token}"}
    ask = {"name": "an agent", "role": "operator", "kind": "agent"}
    agent = {"Authorization": f"Bearer {httpx2.post(f'{api}/tokens', json=ask, headers=admin).json()['token']}"}
    doomed = f"{api}/clusters/too-many"
    approval = httpx2.delete(doomed, params={"dry_run": True}, headers=agent).json()["approval"]
    assert httpx2.delete(doomed, params={"approval": approval}, headers=agent).json()["status"] == "awaiting_approval"
    console.reload()
    console.get_by_role("link", name="Waiting for a person").click()
    console.get_by_role("link", name="Delete the cluster").click()
    expect(console.get_by_role("button", name="Approve")).to_be_visible()
    console.get_by_role("button", name="Reject").click()
    expect(console.get_by_text("Cancelled").first).to_be_visible()


def _is_forgotten(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/too-many")
    console.get_by_role("button", name="Actions").click()
    console.get_by_role("menuitem", name="Forget").click()
    expect(console.get_by_text("too-many is off the list. Nothing on AWS changed.")).to_be_visible()
    expect(console.get_by_text("No clusters", exact=True)).to_be_visible()


def test_a_training_plan_is_asked_for_only_with_that_capacity(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/clusters/create")
    expect(console.get_by_label("Training plan ARN")).to_have_count(0)
    console.get_by_role("radio", name="Training plan").check()
    expect(console.get_by_label("Training plan ARN")).to_be_visible()


def test_dark_mode_is_remembered(console: Page) -> None:
    console.get_by_role("button", name="Dark mode").click()
    expect(console.locator("body")).to_have_class("awsui-dark-mode")
    console.reload()
    expect(console.get_by_role("button", name="Light mode")).to_be_visible()
    expect(console.locator("body")).to_have_class("awsui-dark-mode")


def test_a_token_is_shown_once_and_ends_when_revoked(console: Page, server: ControlPlane, browser: Browser) -> None:
    console.goto(f"{server.url}/tokens")
    console.get_by_role("button", name="Create token").click()
    dialog = console.get_by_role("dialog")
    dialog.get_by_label("Name").fill("a viewer")
    dialog.get_by_role("button", name="Role").click()
    console.get_by_role("option", name="Viewer").click()
    dialog.get_by_role("button", name="Create token").click()
    token = console.get_by_text("ist_").inner_text()
    console.get_by_role("button", name="Done").click()
    expect(console.get_by_text(token)).to_have_count(0)
    other = browser.new_context()
    viewer = sign_in(other.new_page(), server, token)
    _is_told_what_he_may_not(viewer, server)
    console.get_by_role("button", name="Revoke a viewer").click()
    console.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(console.get_by_role("row", name="a viewer")).to_contain_text("Revoked")
    viewer.goto(f"{server.url}/clusters")
    expect(viewer.get_by_role("heading", name="Sign in to InstantStart")).to_be_visible()
    other.close()


def _is_told_what_he_may_not(viewer: Page, server: ControlPlane) -> None:
    expect(viewer.get_by_role("link", name="Tokens")).to_have_count(0)
    viewer.goto(f"{server.url}/audit")
    expect(viewer.get_by_text("This takes the role admin; a viewer has viewer.")).to_be_visible()


def test_an_unknown_address_and_an_unknown_cluster_are_told_as_such(console: Page, server: ControlPlane) -> None:
    console.goto(f"{server.url}/no/such/page")
    expect(console.get_by_text("There is no such page")).to_be_visible()
    console.goto(f"{server.url}/clusters/never-made")
    expect(console.get_by_text("There is no cluster never-made of InstantStart")).to_be_visible()
    console.goto(f"{server.url}/operations/op-none")
    expect(console.get_by_role("button", name="Try again")).to_be_visible()


def test_the_keyboard_is_enough_to_sign_in_and_to_ask(page: Page, server: ControlPlane, complaints: list[str]) -> None:
    page.goto(f"{server.url}/login")
    page.get_by_label("Token").focus()
    page.keyboard.type(server.token)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/clusters")
    page.goto(f"{server.url}/clusters/create")
    page.get_by_label("Tag").focus()
    page.keyboard.type("by-keys")
    page.keyboard.press("Enter")
    expect(page.get_by_text("zone is required.", exact=True)).to_be_visible()
