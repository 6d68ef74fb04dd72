"""People sign in at a provider: the good way, and every wrong answer that a bad provider or a stranger could give."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from tests.oidc.conftest import House, Visitor, code_of
from tests.oidc.little import CLIENT_ID, CLIENT_SECRET, Claims, Little

from instantstart.faces.cli import contexts, main, session
from instantstart.store.records import AuditFilter


def test_a_person_comes_in_with_the_mapped_role_and_goes_where_he_wanted(visitor: Visitor, provider: Little, house: House) -> None:
    back = visitor.come_back(visitor.depart("?next=/operations%3Fstatus%3Dfailed"))
    assert back.headers["location"].startswith("/login?next=%2Foperations%3Fstatus%3Dfailed#code=")
    entered = visitor.enter(code_of(back))
    assert entered.status_code == 201
    assert "SameSite=strict" in entered.headers["set-cookie"]
    me = visitor.me().json()
    assert (me["name"], me["role"], me["kind"], me["face"]) == ("ada@example.com", "operator", "person", "console")
    asked = provider.departures[0]
    assert (asked["response_type"], asked["code_challenge_method"], asked["scope"]) == ("code", "S256", "openid profile email")
    assert asked["redirect_uri"] == f"{house.url}/api/v1/sign-in/oidc/callback"
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    ways = httpx2.get(f"{house.url}/api/v1/sign-in").json()
    assert ways == {"provider": "Example", "start": "/api/v1/sign-in/oidc"}
    out = visitor.http.get(f"{house.url}/api/v1/sign-in/oidc/way-out").json()["url"]
    assert parse_qs(urlsplit(out).query) == {"client_id": [CLIENT_ID], "post_logout_redirect_uri": [f"{house.url}/login"]}


def test_the_same_person_is_the_same_identity_with_todays_role(visitor: Visitor, provider: Little, house: House) -> None:
    first = visitor.sign_in().json()["identity"]
    provider.person = {**provider.person, "groups": ["platform", "ml"], "email": "ada.l@example.com"}
    again = visitor.sign_in().json()["identity"]
    assert again["id"] == first["id"]
    assert (again["role"], again["name"]) == ("admin", "ada.l@example.com")
    provider.person = {**provider.person, "sub": "person-2"}
    assert visitor.sign_in().json()["identity"]["id"] != first["id"]


def test_nothing_of_a_sign_in_is_kept_that_would_open_anything(visitor: Visitor, provider: Little, house: House) -> None:
    back = visitor.come_back(visitor.depart())
    raw = b"".join(path.read_bytes() for path in house.room.settings.data_dir.glob("instantstart.sqlite*"))
    asked = provider.departures[0]
    for secret in (code_of(back), asked["state"], asked["nonce"], CLIENT_SECRET, visitor.http.cookies["instantstart_sign_in"]):
        assert secret.encode() not in raw


def _signed(claims: Claims, header: Claims, key: Any) -> str:
    return jwt.encode(header, claims, key, algorithms=[header["alg"]])


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _claims_of(token: str) -> Claims:
    body = token.split(".")[1]
    found: Claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def _by_the_public_key(provider: Little) -> Callable[[str], str]:
    """Signed by HMAC, with the text of the public key as the shared secret: the classic confusion."""
    pem = provider.keys[0].as_pem(private=False)

    def forge(token: str) -> str:
        signed = f"{_part({'alg': 'HS256', 'kid': provider.keys[0].kid})}.{token.split('.')[1]}"
        return f"{signed}.{base64.urlsafe_b64encode(hmac.digest(pem, signed.encode(), 'sha256')).decode().rstrip('=')}"

    return forge


FORGERIES: dict[str, Callable[[Little], None]] = {
    "another nonce": lambda p: setattr(p, "twist", lambda c: {**c, "nonce": "of-another-sign-in"}),
    "no nonce": lambda p: setattr(p, "twist", lambda c: {k: v for k, v in c.items() if k != "nonce"}),
    "another audience": lambda p: setattr(p, "twist", lambda c: {**c, "aud": "somebody-else"}),
    "several audiences": lambda p: setattr(p, "twist", lambda c: {**c, "aud": [CLIENT_ID, "somebody-else"]}),
    "another party": lambda p: setattr(p, "twist", lambda c: {**c, "azp": "somebody-else"}),
    "another issuer": lambda p: setattr(p, "twist", lambda c: {**c, "iss": "https://elsewhere.example"}),
    "expired": lambda p: setattr(p, "twist", lambda c: {**c, "exp": c["iat"] - 600, "iat": c["iat"] - 900}),
    "from the future": lambda p: setattr(p, "twist", lambda c: {**c, "iat": c["iat"] + 900}),
    "no end": lambda p: setattr(p, "twist", lambda c: {k: v for k, v in c.items() if k != "exp"}),
    "nobody": lambda p: setattr(p, "twist", lambda c: {k: v for k, v in c.items() if k != "sub"}),
    "an empty name": lambda p: setattr(p, "twist", lambda c: {**c, "sub": ""}),
    "a name that is a number": lambda p: setattr(p, "twist", lambda c: {**c, "sub": 7}),
    "no signature": lambda p: setattr(p, "forge", lambda t: f"{_part({'alg': 'none'})}.{t.split('.')[1]}."),
    "a signature of None": lambda p: setattr(p, "forge", lambda t: f"{_part({'alg': 'None'})}.{t.split('.')[1]}.AAAA"),
    "a signature cut off": lambda p: setattr(p, "forge", lambda t: t.rpartition(".")[0] + "."),
    "a changed claim": lambda p: setattr(
        p, "forge", lambda t: ".".join((t.split(".")[0], _part({**_claims_of(t), "groups": ["platform"]}), t.split(".")[2]))
    ),
    "a stranger's key under the provider's name": lambda p: setattr(
        p, "forge", lambda t: _signed(_claims_of(t), {"alg": "ES256", "kid": p.keys[0].kid}, ECKey.generate_key("P-256"))
    ),
    "a key that nobody published": lambda p: setattr(
        p, "forge", lambda t: _signed(_claims_of(t), {"alg": "ES256", "kid": "unknown"}, ECKey.generate_key("P-256"))
    ),
    "the public key as a shared secret": lambda p: setattr(p, "forge", _by_the_public_key(p)),
    "the client's secret as the key": lambda p: setattr(
        p, "forge", lambda t: _signed(_claims_of(t), {"alg": "HS256"}, OctKey.import_key(CLIENT_SECRET * 2))
    ),
    "no token at all": lambda p: setattr(p, "forge", lambda t: ""),
    "rubbish": lambda p: setattr(p, "forge", lambda t: "a.b.c"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_word_lets_nobody_in(visitor: Visitor, provider: Little, house: House, forgery: str) -> None:
    FORGERIES[forgery](provider)
    refused = visitor.sign_in()
    assert refused.status_code == 401
    assert "sign_in.word_refused" in refused.text
    assert visitor.me().status_code == 401
    assert house.people() == 0
    line = house.room.store.audit.list(AuditFilter(outcome="refused")).items
    assert any(each.path == "/api/v1/sign-in/oidc/callback" for each in line)


def test_a_new_key_is_learned_and_an_old_one_is_forgotten(visitor: Visitor, provider: Little) -> None:
    assert visitor.sign_in().status_code == 201
    old = provider.keys[0]
    provider.rotate("RSA")
    assert visitor.sign_in().status_code == 201
    provider.forge = lambda token: _signed(_claims_of(token), {"alg": "ES256", "kid": old.kid}, old)
    assert visitor.sign_in().status_code == 401
    asked = provider.asked.count("/keys")
    for _ in range(8):
        assert visitor.sign_in().status_code == 401
    assert provider.asked.count("/keys") - asked <= 5, "unknown keys do not make us a nuisance"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda q: {k: v for k, v in q.items() if k != "state"}, "sign_in.state_wrong"),
        (lambda q: {**q, "state": "another"}, "sign_in.state_wrong"),
        (lambda q: {**q, "iss": "https://elsewhere.example"}, "sign_in.issuer_wrong"),
        (lambda q: {k: v for k, v in q.items() if k != "iss"}, "sign_in.issuer_wrong"),
        (lambda q: {**q, "code": "made-up"}, "sign_in.code_refused"),
        (lambda q: {k: v for k, v in q.items() if k != "code"}, "sign_in.code_missing"),
        (lambda q: {"error": "access_denied", "error_description": "<script>alert(1)</script>", **q}, "sign_in.provider_refused"),
    ],
)
def test_a_wrong_answer_is_refused(visitor: Visitor, provider: Little, change: Any, code: str) -> None:
    provider.answer = change
    refused = visitor.sign_in()
    assert refused.status_code == 401
    assert code in refused.text
    assert "<script>" not in refused.text
    assert "/token" not in provider.asked or code == "sign_in.code_refused"


def test_an_answer_works_once_in_the_browser_that_left(visitor: Visitor, house: House, provider: Little) -> None:
    address = visitor.depart()
    other = Visitor(house)
    assert "sign_in.unknown" in other.come_back(address).text, "somebody who only saw the address"
    other.depart()
    assert "sign_in.state_wrong" in other.come_back(address).text, "an attacker's answer in a victim's browser"
    back = visitor.come_back(address)
    assert "sign_in.unknown" in visitor.come_back(address).text, "replayed"
    stolen = other.enter(code_of(back))
    assert stolen.status_code == 401, "the one-time code is bound to the browser"
    assert visitor.enter(code_of(back)).status_code == 401, "and a wrong try uses it up"
    assert provider.asked.count("/token") == 1


@pytest.mark.parametrize(
    "way", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/ok%0d%0aSet-Cookie:a=b", "/%09/evil.example"]
)
def test_nobody_is_led_to_another_site(visitor: Visitor, house: House, way: str) -> None:
    answer = visitor.http.get(f"{house.url}/api/v1/sign-in/oidc?next={way}")
    assert answer.status_code == 422
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("query", ["?port=4000", "?port=80&proof=x&state=y", "?port=4000&state=abc", "?redirect_uri=http://evil.example"])
def test_a_command_line_says_all_or_nothing(visitor: Visitor, house: House, query: str) -> None:
    assert visitor.http.get(f"{house.url}/api/v1/sign-in/oidc{query}").status_code == 422


@pytest.mark.parametrize(
    ("person", "code"),
    [
        ({"groups": ["sales"]}, "sign_in.no_role"),
        ({"groups": []}, "sign_in.no_role"),
        ({"groups": {"ml": True}}, "sign_in.no_role"),
        ({"email": "ada@evil.example"}, "sign_in.domain_refused"),
        ({"email": "ada@example.com.evil.example"}, "sign_in.domain_refused"),
        ({"email_verified": False}, "sign_in.domain_refused"),
        ({"email_verified": "true"}, "sign_in.domain_refused"),
        ({"email": None}, "sign_in.domain_refused"),
    ],
)
def test_a_person_whom_no_setting_lets_in_stays_out(visitor: Visitor, provider: Little, house: House, person: Claims, code: str) -> None:
    provider.person = {**provider.person, **person}
    refused = visitor.sign_in()
    assert refused.status_code == 403
    assert code in refused.text
    assert house.people() == 0


def test_roles_may_lie_deeper_come_from_userinfo_or_be_given_to_everybody(visitor: Visitor, provider: Little, house: House) -> None:
    settings = house.room.settings
    house.set(settings.model_copy(update={"oidc_role_claim": "realm_access.roles"}))
    provider.person = {**provider.person, "realm_access": {"roles": ["platform"]}}
    assert visitor.sign_in().json()["identity"]["role"] == "admin"
    house.set(settings)
    provider.person.pop("groups")
    provider.more = {"groups": "ml"}
    assert visitor.sign_in().json()["identity"]["role"] == "operator"
    provider.more = {"groups": "ml", "sub": "person-9"}
    assert visitor.sign_in().status_code == 403, "userinfo of another person counts for nothing"
    house.set(settings.model_copy(update={"oidc_default_role": "viewer"}))
    assert visitor.sign_in().json()["identity"]["role"] == "viewer"


def test_who_was_disabled_here_stays_out_and_is_cut_off(visitor: Visitor, house: House) -> None:
    who = visitor.sign_in().json()["identity"]["id"]
    admin = {"Authorization": f"Bearer {house.token('admin')}"}
    refused = httpx2.patch(f"{house.url}/api/v1/tokens/{who}", json={"role": "viewer"}, headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (409, "identity.vouched_elsewhere")
    assert httpx2.patch(f"{house.url}/api/v1/tokens/{who}", json={"disabled": True}, headers=admin).status_code == 200
    assert visitor.me().status_code == 401
    assert "sign_in.disabled" in visitor.sign_in().text
    assert httpx2.patch(f"{house.url}/api/v1/tokens/{who}", json={"disabled": False}, headers=admin).status_code == 200
    assert visitor.sign_in().status_code == 201


def test_an_administrator_of_the_providers_is_not_the_last_one(visitor: Visitor, provider: Little, house: House) -> None:
    provider.person = {**provider.person, "groups": ["platform"]}
    assert visitor.sign_in().json()["identity"]["role"] == "admin"
    token = house.token("admin")
    me = httpx2.get(f"{house.url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()["id"]
    refused = visitor.http.delete(f"{house.url}/api/v1/tokens/{me}", headers={"Origin": house.url})
    assert (refused.status_code, refused.json()["code"]) == (409, "identity.last_admin")


def test_a_provider_that_is_away_or_another_is_told(visitor: Visitor, house: House, provider: Little) -> None:
    settings = house.room.settings
    house.set(settings.model_copy(update={"oidc_issuer": "http://127.0.0.1:9"}))
    away = visitor.http.get(f"{house.url}/api/v1/sign-in/oidc")
    assert (away.status_code, away.json()["code"]) == (502, "sign_in.provider_unreachable")
    house.set(settings.model_copy(update={"oidc_issuer": provider.issuer + "/tenant"}))
    assert visitor.http.get(f"{house.url}/api/v1/sign-in/oidc").status_code == 502
    house.set(settings.model_copy(update={"oidc_issuer": ""}))
    assert visitor.http.get(f"{house.url}/api/v1/sign-in/oidc").json()["code"] == "sign_in.no_provider"
    assert visitor.http.get(f"{house.url}/api/v1/sign-in").json() == {"provider": None, "start": None}


def test_the_command_line_signs_in_by_the_browser_and_out_again(
    visitor: Visitor, house: House, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(session, "transport", None)
    visits: list[threading.Thread] = []

    def visit(address: str) -> bool:
        walk = threading.Thread(
            target=lambda: visitor.http.get(visitor.come_back(visitor.depart("?" + address.partition("?")[2])).headers["location"])
        )
        visits.append(walk)
        walk.start()
        return True

    monkeypatch.setattr("webbrowser.open", visit)
    assert main.run(["login", house.url, "--browser"]) == 0, capsys.readouterr().err
    for each in visits:
        each.join()
    saved = contexts.resolve()
    assert str(saved.token).startswith("iss_")
    assert main.run(["session", "list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["client"], each["via"], each["current"]) for each in listed] == [("cli", "oidc", True)]
    cookie = httpx2.get(f"{house.url}/api/v1/me", headers={"Cookie": f"instantstart_session={saved.token}"})
    assert cookie.status_code == 401, "a command line's secret is no browser's"
    assert main.run(["logout"]) == 0
    bearer = {"Authorization": f"Bearer {saved.token}"}
    assert httpx2.get(f"{house.url}/api/v1/me", headers=bearer).status_code == 401
    assert contexts.resolve().token is None


def test_a_code_for_a_command_line_opens_only_with_its_secret(visitor: Visitor, house: House) -> None:
    proof = hashlib.sha256(b"a" * 43).hexdigest()
    back = visitor.come_back(visitor.depart(f"?port=4000&proof={proof}&state=abc"))
    address = urlsplit(back.headers["location"])
    assert (address.hostname, address.port, parse_qs(address.query)["state"]) == ("127.0.0.1", 4000, ["abc"])
    code = parse_qs(address.query)["code"][0]
    wrong = httpx2.post(f"{house.url}/api/v1/session", json={"code": code, "proof": "b" * 43})
    assert wrong.status_code == 401
