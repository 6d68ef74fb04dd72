"""A provider, the toy house that trusts it, and a browser between the two."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from tests.faces import toys
from tests.oidc import little

from instantstart import store
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.faces.api.app import build
from instantstart.oidc.provider import Provider
from instantstart.oidc.registration import from_settings


class House:
    """The toy house, listening."""

    def __init__(self, running: toys.Running) -> None:
        self.url, self.room, self.app, self.token = running.url, running.room, running.app, running.token

    def set(self, settings: Settings) -> None:
        """Other settings from now on, as after a restart."""
        self.room.settings = settings
        registration = from_settings(settings)
        self.app.state.provider = Provider(registration) if registration else None

    def people(self) -> int:
        """How many the provider has vouched for and may still enter."""
        return sum(1 for each in self.room.store.identities.list() if each.issuer and not each.revoked_at)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[little.Little, House]]:
    """A provider and a server that both listen."""
    folder = tmp_path_factory.mktemp("sign-in")
    room = SimpleNamespace(settings=Settings(data_dir=folder), clock=Clock(), store=store.open(None, folder), engine=toys.ToyEngine())
    app = build(room, (toys.toys,), web=folder / "web")  # type: ignore[arg-type]
    with little.listening() as provider, toys.behind_a_socket(app, room) as running:
        yield provider, House(running)


@pytest.fixture
def provider(ground: tuple[little.Little, House]) -> little.Little:
    """The provider as new, and another person before it."""
    ground[0].reset()
    return ground[0]


@pytest.fixture
def house(ground: tuple[little.Little, House], provider: little.Little) -> House:
    """The server as an administrator set it up, with nobody in it."""
    house = ground[1]
    for each in house.room.store.identities.list():
        house.room.store.identities.revoke(each.id)
    secret = house.room.settings.data_dir / "client-secret"
    secret.write_text(little.CLIENT_SECRET + "\n")
    house.set(
        Settings(
            data_dir=secret.parent, oidc_issuer=provider.issuer, oidc_client_id=little.CLIENT_ID, oidc_client_secret_file=secret,
            oidc_roles="ml=operator; platform=admin", oidc_domains="example.com", oidc_name="Example",
        )
    )  # fmt: skip
    return house


class Visitor:
    """Follows redirects one at a time, and keeps cookies for each host, as a browser does."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.http = httpx2.Client(follow_redirects=False, timeout=30, verify=False)

    def depart(self, query: str = "") -> str:
        """Leave for the provider; the address that the provider sends the browser back to."""
        left = self.http.get(f"{self.house.url}/api/v1/sign-in/oidc{query}")
        assert left.status_code == 303, left.text
        return self.http.get(left.headers["location"]).headers["location"]

    def come_back(self, address: str) -> httpx2.Response:
        """Go where the provider says."""
        return self.http.get(address)

    def enter(self, code: str) -> httpx2.Response:
        """What the sign-in page does."""
        return self.http.post(f"{self.house.url}/api/v1/session", json={"code": code}, headers={"Origin": self.house.url})

    def sign_in(self, query: str = "") -> httpx2.Response:
        """The whole way."""
        back = self.come_back(self.depart(query))
        return self.enter(code_of(back)) if back.status_code == 303 else back

    def me(self) -> Any:
        """Who the server says this browser is."""
        return self.http.get(f"{self.house.url}/api/v1/me")


def code_of(back: httpx2.Response) -> str:
    """The one-time code in a redirect to the sign-in page."""
    return back.headers["location"].rpartition("#code=")[2]


@pytest.fixture
def visitor(house: House) -> Iterator[Visitor]:
    """A person with a fresh browser."""
    made = Visitor(house)
    yield made
    made.http.close()
