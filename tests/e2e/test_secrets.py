"""What a session leaves in the browser: no token, no secret, wherever a script or the next person at the machine could look."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, expect
from tests.e2e import pages
from tests.e2e.conftest import Ready, sign_in

HUB_TOKEN = "hf_" + "Zq8WsX3eDc5RfV7tGb" * 2
VARIABLE = "a-variable-that-nobody-else-may-see"

#: all that a script of the page can read and that outlives it
_KEPT = """async () => {
  const read = async (request) => new Promise((done, fail) => { request.onsuccess = () => done(request.result); request.onerror = fail; });
  const databases = [];
  for (const { name } of await indexedDB.databases()) {
    const database = await read(indexedDB.open(name));
    for (const store of database.objectStoreNames) databases.push(await read(database.transaction(store).objectStore(store).getAll()));
  }
  const caches_ = [];
  for (const name of await caches.keys())
    for (const request of await (await caches.open(name)).keys()) caches_.push(request.url);
  return JSON.stringify({
    local: {...localStorage}, session: {...sessionStorage}, cookie: document.cookie, databases, caches: caches_, history: history.state,
    workers: (await navigator.serviceWorker.getRegistrations()).map((each) => each.scope), name: window.name, place: location.href,
  });
}"""


def test_a_session_leaves_no_secret_in_the_browser(ready: Ready, page: Page, complaints: list[str]) -> None:
    visited: list[str] = []
    page.on("framenavigated", lambda frame: visited.append(frame.url))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, ready.plane, ready.plane.token)
    made = _a_token_is_made(page, ready)
    _a_hub_token_is_stored(page, ready)
    _a_job_with_variables_is_previewed(page, ready)
    secrets = (ready.plane.token, made, HUB_TOKEN, VARIABLE)
    kept = page.evaluate(_KEPT)
    places = json.loads(kept)
    assert places["caches"] == places["databases"] == places["workers"] == []
    assert "instantstart_session" not in places["cookie"]
    for secret in secrets:
        assert secret not in kept
        assert not any(secret in address for address in (*visited, *asked))
    cookies = [each for each in page.context.cookies() if "session" in each["name"]]
    assert cookies
    assert all(each["httpOnly"] and each["sameSite"] == "Strict" for each in cookies)
    pages.open_page(page, f"{ready.url}/clusters/{ready.tag}?tab=storage")
    page.go_back()
    assert not any(secret in page.content() for secret in (made, HUB_TOKEN, ready.plane.token))


def _a_token_is_made(page: Page, ready: Ready) -> str:
    pages.open_page(page, f"{ready.url}/tokens")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("somebody new")
    dialog.get_by_role("button", name="Role").click()
    page.get_by_role("option", name="Viewer").click()
    dialog.get_by_role("button", name="Create token").click()
    made = page.get_by_text("ist_").inner_text()
    page.get_by_role("button", name="Done").click()
    return made


def _a_hub_token_is_stored(page: Page, ready: Ready) -> None:
    pages.open_page(page, f"{ready.url}/clusters/{ready.tag}?tab=storage")
    page.get_by_role("button", name="Store a hub token").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Store")).to_be_disabled()
    dialog.locator("input[name=token]").fill(HUB_TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_text("The token is kept as Secret hub-token in default.")).to_be_visible()
    expect(dialog).to_have_count(0)


def _a_job_with_variables_is_previewed(page: Page, ready: Ready) -> None:
    pages.open_page(page, f"{ready.url}/clusters/{ready.tag}/submit-job")
    page.get_by_role("button", name="Data and variables").click()
    page.get_by_role("textbox", name=re.compile("^Env")).fill(f"WORD={VARIABLE}")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("name is required.", exact=True)).to_be_visible()
