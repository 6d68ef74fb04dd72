"""Who is let in: 401 and 403 texts, access policies, RBAC objects, reviews, impersonation, and what anybody may see."""

from __future__ import annotations

import pytest

from .conftest import IDENTITIES, World
from .objects import MAPS, PODS, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_a_token_nobody_knows_is_a_401(world: World) -> None:
    with world.http("stale") as http:
        answer = http.get(PODS)
    assert answer.status_code == 401
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_without_a_token_only_health_and_version_are_shown(world: World) -> None:
    with world.http(None) as http:
        assert http.get("/healthz").text == http.get("/readyz").text == http.get("/livez").text == "ok"
        assert http.get("/version").json()["gitVersion"] == http.get("/version/").json()["gitVersion"]
        body = http.get("/api").json()
        assert (body["code"], body["message"]) == (403, 'forbidden: User "system:anonymous" cannot get path "/api"')
        assert http.get(PODS).json()["message"] == (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"'
        )


def test_a_viewer_reads_but_neither_writes_nor_sees_secrets(world: World) -> None:
    with world.http("viewer-token") as http:
        assert http.get(PODS).status_code == 200
        assert http.get("/apis").status_code == 200
        refused = http.post(MAPS, json=config_map()).json()
        assert (refused["code"], refused["reason"]) == (403, "Forbidden")
        assert refused["message"] == (
            'configmaps is forbidden: User "viewer-user" cannot create resource "configmaps" in API group "" in the namespace "default"'
        )
        assert refused["details"] == {"kind": "configmaps"}
        assert http.get("/api/v1/namespaces/default/secrets").status_code == 403
        nodes = http.get("/api/v1/nodes/n").json()["message"]
        assert nodes == 'nodes "n" is forbidden: User "viewer-user" cannot get resource "nodes" in API group "" at the cluster scope'


def test_a_namespaced_policy_holds_in_its_namespace_only(world: World) -> None:
    with world.http() as admin:
        admin.post("/api/v1/namespaces", json={"metadata": {"name": "team-a"}})
    with world.http("editor-token") as http:
        assert http.post("/api/v1/namespaces/team-a/configmaps", json=config_map()).status_code == 201
        assert http.post(MAPS, json=config_map()).status_code == 403
        assert http.get("/api/v1/namespaces/team-a").status_code == 200
        assert http.get("/api/v1/configmaps").status_code == 403


def test_roles_and_bindings_are_evaluated(world: World) -> None:
    role = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}],
    }
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "Group", "name": "some-group"}],
    }
    with world.http() as admin, world.http("nobody-token") as http:
        admin.post(MAPS, json=config_map("a"))
        admin.post(MAPS, json=config_map("b"))
        assert http.get(f"{MAPS}/a").status_code == 403
        assert admin.post(f"{RBAC}/namespaces/default/roles", json=role).status_code == 201
        assert admin.post(f"{RBAC}/namespaces/default/rolebindings", json=binding).status_code == 201
        assert http.get(f"{MAPS}/a").status_code == 200
        assert http.get(f"{MAPS}/b").status_code == 403
        assert http.get(MAPS).status_code == 403


@pytest.mark.parametrize(("token", "allowed"), [("admin-token", True), ("viewer-token", False)])
def test_self_subject_access_reviews(world: World, token: str, allowed: bool) -> None:
    about = {"verb": "create", "resource": "pods", "namespace": "default"}
    with world.http(token) as http:
        answer = http.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json={"spec": {"resourceAttributes": about}})
    assert (answer.status_code, answer.json()["status"]["allowed"]) == (201, allowed)


def test_token_reviews_and_who_am_i(world: World) -> None:
    with world.http() as http:
        review = http.post("/apis/authentication.k8s.io/v1/tokenreviews", json={"spec": {"token": "viewer-token"}}).json()
        assert review["status"]["user"]["username"] == "viewer-user"
        unknown = http.post("/apis/authentication.k8s.io/v1/tokenreviews", json={"spec": {"token": "x"}}).json()
        assert "authenticated" not in unknown["status"]
        who = http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}).json()["status"]["userInfo"]
    assert (who["username"], who["extra"]["arn"]) == ("admin-user", [IDENTITIES["admin-token"].arn])
    assert "system:authenticated" in who["groups"]


def test_impersonation_needs_the_right_to_it(world: World) -> None:
    as_other = {"Impersonate-User": "other"}
    with world.http() as admin, world.http("viewer-token") as viewer:
        assert 'User "other" cannot list' in admin.get(PODS, headers=as_other).json()["message"]
        assert 'cannot impersonate resource "users"' in viewer.get(PODS, headers=as_other).json()["message"]


def test_a_token_that_ends_is_refused_after_a_nudge(world: World) -> None:
    with world.http("viewer-token") as http:
        assert http.get(PODS).status_code == 200
        kept = IDENTITIES.pop("viewer-token")
        try:
            world.server.nudge(world.cluster.arn)
            assert http.get(PODS).status_code == 401
        finally:
            IDENTITIES["viewer-token"] = kept
