"""Addresses that the product asks by itself: what they answer leads it nowhere else, and settings take no other schemes (case 88)."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.breach.hostile import Canary

from instantstart.base import problems, settings
from instantstart.hub.client import Hub, Wanted
from instantstart.oidc.provider import Provider
from instantstart.oidc.registration import Registration

#: places where a server that follows a redirect would find what is not its caller's
INSIDE = (
    "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[::1]:{port}/x",
    "http://localhost:{port}/x",
    "http://127.0.0.1:{port}/x",
    "http://0x7f000001:{port}/x",
    "https://127.0.0.1:{port}/x",
    "//127.0.0.1:{port}/x",
    "http://127.0.0.1:{port}@169.254.170.23/v1/credentials",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/x",
)


class Elsewhere:
    """A server that sends everybody to another address. ``asked``: the paths it was asked for."""

    def __init__(self) -> None:
        told = self
        self.to, self.asked = "", list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told.asked.append(self.path)
                renamed = self.path.startswith("/api/models/new/")
                body = b'{"id": "new/name", "sha": "0123456789abcdef", "siblings": []}' if renamed else b"{}"
                self.send_response(200 if renamed else 307)
                if not renamed:
                    self.send_header("Location", told.to)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Such a server."""
    made = Elsewhere()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    """An address that must not be asked."""
    made = Canary()
    yield made
    made.close()


@pytest.mark.parametrize("place", INSIDE)
def test_the_hub_leads_nowhere_but_to_itself(elsewhere: Elsewhere, canary: Canary, place: str) -> None:
    elsewhere.to = place.format(port=canary.port)
    with pytest.raises(problems.Unreachable) as refused:
        Hub(elsewhere.url).inspect(Wanted("old/name"), token="hf_secret")
    assert refused.value.code in ("hub.leads_elsewhere", "hub.unreachable")
    assert len(elsewhere.asked) == 1
    assert canary.heard == 0


def test_a_repository_that_was_renamed_is_found(elsewhere: Elsewhere) -> None:
    elsewhere.to = "/api/models/new/name/revision/main?blobs=true"
    assert Hub(elsewhere.url).inspect(Wanted("old/name")).id == "new/name"


def test_a_hub_that_leads_in_circles_is_left(elsewhere: Elsewhere) -> None:
    elsewhere.to = "/api/models/old/name/revision/main?blobs=true"
    with pytest.raises(problems.Unreachable) as refused:
        Hub(elsewhere.url).inspect(Wanted("old/name"))
    assert refused.value.code == "hub.not_a_hub"
    assert len(elsewhere.asked) < 10


@pytest.mark.parametrize("place", INSIDE)
def test_the_identity_provider_leads_nowhere(elsewhere: Elsewhere, canary: Canary, place: str) -> None:
    elsewhere.to = place.format(port=canary.port)
    provider = Provider(Registration(issuer=elsewhere.url, client_id="us", client_secret="x"))
    with pytest.raises(problems.Unreachable):
        provider._discovered()
    assert (len(elsewhere.asked), canary.heard) == (1, 0)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "gopher://x/", "javascript:alert(1)", "http://x/ y", "169.254.169.254"])
@pytest.mark.parametrize("name", ["hub_url", "otlp_endpoint", "oidc_issuer", "public_url"])
def test_settings_take_no_other_schemes(name: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(problems.Invalid) as refused:
        settings.load({"INSTANTSTART_DATA_DIR": str(tmp_path), f"INSTANTSTART_{name.upper()}": place})
    assert [field.pointer for field in refused.value.fields] == [f"/INSTANTSTART_{name.upper()}"]


@pytest.mark.parametrize("place", ["http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://10.0.0.1/", "https://a.example/x?y=z"])
def test_an_issuer_is_encrypted_or_on_this_machine(place: str, tmp_path: Path) -> None:
    with pytest.raises(problems.Invalid):
        settings.load({"INSTANTSTART_DATA_DIR": str(tmp_path), "INSTANTSTART_OIDC_ISSUER": place})
