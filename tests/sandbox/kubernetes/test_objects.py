"""Creating, reading, replacing and deleting over HTTPS: codes, reasons, details and what the server sets."""

from __future__ import annotations

import re

import httpx2
import pytest

from .objects import DEPLOYMENTS, JOBS, MAPS, PODS, config_map, deployment, job, pod

MERGE = {"Content-Type": "application/merge-patch+json"}


def test_a_created_pod_has_identity_defaults_and_first_status(http: httpx2.Client) -> None:
    answer = http.post(PODS, json=pod())
    body = answer.json()
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", body["metadata"]["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["metadata"]["creationTimestamp"])
    assert (body["kind"], body["apiVersion"], body["metadata"]["generation"]) == ("Pod", "v1", 1)
    assert body["spec"]["restartPolicy"] == "Always"
    assert body["spec"]["serviceAccountName"] == body["spec"]["serviceAccount"] == "default"
    assert body["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert {t["key"] for t in body["spec"]["tolerations"]} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert body["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert http.get(f"{PODS}/a").json() == body


def test_a_second_create_is_a_409_already_exists(http: httpx2.Client) -> None:
    http.post(MAPS, json=config_map())
    answer = http.post(MAPS, json=config_map())
    assert answer.status_code == 409
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 409,
    }


def test_what_is_not_there_is_a_404_with_details(http: httpx2.Client) -> None:
    body = http.get(f"{DEPLOYMENTS}/nope").json()
    assert (body["code"], body["reason"]) == (404, "NotFound")
    assert body["message"] == 'deployments.apps "nope" not found'
    assert body["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}
    assert http.get("/apis/apps/v1/namespaces/default/gadgets").json()["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("query", "field", "reason"),
    [
        ("dryRun=Some", "dryRun", "FieldValueNotSupported"),
        ("fieldValidation=Soft", "fieldValidation", "FieldValueNotSupported"),
        (f"fieldManager={'x' * 129}", "fieldManager", "FieldValueTooLong"),
        ("force=true", "force", "FieldValueForbidden"),
    ],
)
def test_options_that_make_no_sense(http: httpx2.Client, query: str, field: str, reason: str) -> None:
    http.post(MAPS, json=config_map())
    body = http.patch(f"{MAPS}/a?{query}", json={}, headers=MERGE).json()
    assert (body["code"], body["details"]["group"], body["details"]["kind"]) == (422, "meta.k8s.io", "PatchOptions")
    assert [(c["field"], c["reason"]) for c in body["details"]["causes"]] == [(field, reason)]


def test_a_put_makes_what_its_kind_allows(http: httpx2.Client) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert http.put(f"{leases}/l", json={"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}).status_code == 201
    assert http.put(f"{leases}/l", json={"metadata": {"name": "l"}, "spec": {"holderIdentity": "y"}}).status_code == 200
    assert http.put(f"{MAPS}/none", json=config_map("none")).status_code == 404


def test_a_name_under_deletion_cannot_be_taken(http: httpx2.Client) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    http.post(MAPS, json=body)
    http.delete(f"{MAPS}/a")
    assert http.post(MAPS, json=config_map()).json()["message"] == 'object is being deleted: configmaps "a" already exists'


def test_a_stale_resource_version_is_a_conflict(http: httpx2.Client) -> None:
    first = http.post(MAPS, json=config_map()).json()
    second = http.put(f"{MAPS}/a", json={**first, "data": {"k": "2"}})
    assert second.status_code == 200
    answer = http.put(f"{MAPS}/a", json={**first, "data": {"k": "3"}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert answer.json()["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_a_write_without_change_makes_no_revision(http: httpx2.Client) -> None:
    first = http.post(DEPLOYMENTS, json=deployment()).json()
    assert http.put(f"{DEPLOYMENTS}/web", json=first).json()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    patched = http.patch(f"{DEPLOYMENTS}/web", json={"spec": {"replicas": 2}}, headers=MERGE)
    assert patched.json() == first


def test_generation_counts_spec_changes_only(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json=deployment())

    def generation(path: str, body: object) -> int:
        return int(http.patch(f"{DEPLOYMENTS}/web{path}", json=body, headers=MERGE).json()["metadata"]["generation"])

    assert generation("", {"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation("/status", {"status": {"replicas": 2}}) == 1
    assert generation("", {"spec": {"replicas": 4}}) == 2


def test_status_and_spec_do_not_touch_each_other(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json={**deployment(), "status": {"replicas": 9}})
    assert http.get(f"{DEPLOYMENTS}/web").json()["status"] == {}
    through_spec = http.patch(f"{DEPLOYMENTS}/web", json={"status": {"replicas": 9}}, headers=MERGE).json()
    assert through_spec["status"] == {}
    through_status = http.patch(
        f"{DEPLOYMENTS}/web/status", json={"spec": {"replicas": 9}, "status": {"replicas": 1}}, headers=MERGE
    ).json()
    assert (through_status["spec"]["replicas"], through_status["status"]["replicas"]) == (2, 1)


def test_the_scale_subresource_changes_replicas_alone(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json=deployment())
    scale = http.get(f"{DEPLOYMENTS}/web/scale").json()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    scaled = http.put(f"{DEPLOYMENTS}/web/scale", json={**scale, "spec": {"replicas": 5}}).json()
    assert scaled["spec"] == {"replicas": 5}
    assert http.patch(f"{DEPLOYMENTS}/web/scale", json={"spec": {"replicas": 0}}, headers=MERGE).json()["spec"] == {}
    assert http.put(f"{DEPLOYMENTS}/web/scale", json={**scale, "spec": {"replicas": 1}}).status_code == 409
    assert http.patch(f"{DEPLOYMENTS}/web/scale", json={"spec": {"replicas": -1}}, headers=MERGE).status_code == 422


def test_generate_name_draws_five_letters(http: httpx2.Client) -> None:
    body = {"metadata": {"generateName": "x-"}, "data": {}}
    names = {http.post(MAPS, json=body).json()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"x-[bcdfghjklmnpqrstvwxz2456789]{5}", n) for n in names)


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
def test_a_dry_run_stores_nothing(http: httpx2.Client, method: str) -> None:
    before = http.post(MAPS, json=config_map()).json()
    if method == "post":
        assert http.post(f"{MAPS}?dryRun=All", json=config_map("b")).status_code == 201
        assert http.get(f"{MAPS}/b").status_code == 404
    elif method == "patch":
        changed = http.patch(f"{MAPS}/a?dryRun=All", json={"data": {"k": "new"}}, headers=MERGE).json()
        assert changed["data"] == {"k": "new"}
    else:
        assert http.delete(f"{MAPS}/a?dryRun=All").status_code == 200
    assert http.get(f"{MAPS}/a").json() == before


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({"metadata": {"name": "x"}, "spec": {}}, "spec.containers", "Required value"),
        (pod("x", restartPolicy="Maybe"), "spec.restartPolicy", "Unsupported value"),
        ({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}, "spec.containers[0].image", "Required value"),
        ({**pod("x"), "metadata": {"name": "Bad_Name"}}, "metadata.name", "RFC 1123 subdomain"),
        ({**pod("x"), "metadata": {"name": "x", "labels": {"a": "b c"}}}, "metadata.labels", "a valid label must be"),
        ({**pod("x"), "metadata": {}}, "metadata.name", "name or generateName is required"),
    ],
)
def test_violations_are_a_422_that_names_the_field(http: httpx2.Client, body: object, field: str, sentence: str) -> None:
    answer = http.post(PODS, json=body)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    causes = answer.json()["details"]["causes"]
    assert any(c["field"] == field and sentence in c["message"] for c in causes), causes
    assert field in answer.json()["message"]


def test_a_gpu_request_must_equal_its_limit(http: httpx2.Client) -> None:
    asked = {"requests": {"nvidia.com/gpu": "1"}}
    body = pod("x", containers=[{"name": "c", "image": "i", "resources": asked}])
    assert "Limit must be set for non overcommitable resources" in http.post(PODS, json=body).json()["message"]
    asked["limits"] = {"nvidia.com/gpu": "2"}
    assert "must be equal to nvidia.com/gpu limit of 2" in http.post(PODS, json=body).json()["message"]


def test_wrong_types_are_a_400_in_the_words_of_go(http: httpx2.Client) -> None:
    body = deployment()
    body["spec"]["replicas"] = "three"
    answer = http.post(DEPLOYMENTS, json=body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert answer.json()["message"] == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field '
        "DeploymentSpec.spec.replicas of type int32"
    )
    assert http.post(DEPLOYMENTS, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400


def test_unknown_fields_by_field_validation(http: httpx2.Client) -> None:
    body = pod("x")
    body["spec"]["colour"] = "red"
    strict = http.post(f"{PODS}?fieldValidation=Strict", json=body)
    assert strict.status_code == 400
    assert strict.json()["message"].endswith('strict decoding error: unknown field "spec.colour"')
    warned = http.post(f"{PODS}?fieldValidation=Warn", json=body)
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.colour\\""'
    assert "colour" not in warned.json()["spec"]
    body["metadata"]["name"] = "y"
    assert "warning" not in http.post(f"{PODS}?fieldValidation=Ignore", json=body).headers


def test_immutable_fields(http: httpx2.Client) -> None:
    http.post(DEPLOYMENTS, json=deployment())
    changed = deployment()
    changed["spec"]["selector"]["matchLabels"]["more"] = "1"
    changed["spec"]["template"]["metadata"]["labels"]["more"] = "1"
    answer = http.put(f"{DEPLOYMENTS}/web", json=changed).json()
    assert (answer["code"], answer["details"]["causes"][0]["field"]) == (422, "spec.selector")
    assert answer["message"].endswith("field is immutable")
    http.post(JOBS, json=job())
    body = http.patch(f"{JOBS}/j", json={"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}}, headers=MERGE).json()
    assert (body["code"], body["details"]["causes"][0]["field"]) == (422, "spec.template")
    http.post(PODS, json=pod())
    body = http.patch(f"{PODS}/a", json={"spec": {"restartPolicy": "Never"}}, headers=MERGE).json()
    assert body["code"] == 422
    assert "pod updates may not change fields other than" in body["message"]
    image = {"spec": {"containers": [{"name": "c", "image": "other:1"}]}}
    assert http.patch(f"{PODS}/a", json=image, headers={"Content-Type": "application/strategic-merge-patch+json"}).status_code == 200


def test_a_job_gets_its_selector_and_labels(http: httpx2.Client) -> None:
    body = http.post(JOBS, json=job()).json()
    uid = body["metadata"]["uid"]
    assert body["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert body["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert (body["spec"]["backoffLimit"], body["spec"]["completions"], body["spec"]["parallelism"]) == (6, 1, 1)


def test_services_get_an_address_and_keep_it(http: httpx2.Client) -> None:
    path = "/api/v1/namespaces/default/services"
    body = http.post(path, json={"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}).json()
    assert body["spec"]["clusterIP"].startswith("10.100.")
    assert body["spec"]["clusterIPs"] == [body["spec"]["clusterIP"]]
    assert 30000 <= body["spec"]["ports"][0]["nodePort"] <= 32767
    bare = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    replaced = http.put(f"{path}/s", json=bare).json()
    assert replaced["spec"]["clusterIP"] == body["spec"]["clusterIP"]
    assert replaced["spec"]["ports"] == body["spec"]["ports"]
    other = http.patch(f"{path}/s", json={"spec": {"clusterIP": "10.100.9.9", "clusterIPs": None}}, headers=MERGE).json()
    assert (other["code"], other["reason"]) == (422, "Invalid")


def test_secrets_take_string_data(http: httpx2.Client) -> None:
    body = http.post("/api/v1/namespaces/default/secrets", json={"metadata": {"name": "s"}, "stringData": {"a": "hi"}}).json()
    assert (body["data"], body["type"]) == ({"a": "aGk="}, "Opaque")
    assert "stringData" not in body


def test_namespaces_must_exist_and_not_be_ending(http: httpx2.Client) -> None:
    missing = http.post("/api/v1/namespaces/nope/configmaps", json=config_map()).json()
    assert (missing["code"], missing["message"]) == (404, 'namespaces "nope" not found')
    made = http.post("/api/v1/namespaces", json={"metadata": {"name": "team"}}).json()
    assert (made["status"]["phase"], made["spec"]["finalizers"]) == ("Active", ["kubernetes"])
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert http.get("/api/v1/namespaces/team/serviceaccounts/default").status_code == 200
    ending = http.delete("/api/v1/namespaces/team").json()
    assert (ending["kind"], ending["status"]["phase"]) == ("Namespace", "Terminating")
    refused = http.post("/api/v1/namespaces/team/configmaps", json=config_map()).json()
    assert (refused["code"], refused["reason"]) == (403, "Forbidden")
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    gone = http.put("/api/v1/namespaces/team/finalize", json={**ending, "spec": {"finalizers": []}})
    assert gone.status_code == 200
    assert http.get("/api/v1/namespaces/team").status_code == 404


def test_finalizers_hold_an_object_until_they_are_removed(http: httpx2.Client) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    http.post(MAPS, json=body)
    deleted = http.delete(f"{MAPS}/a").json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", deleted["metadata"]["deletionTimestamp"])
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    more = http.patch(f"{MAPS}/a", json={"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}, headers=MERGE).json()
    assert (more["code"], more["details"]["causes"][0]["reason"]) == (422, "FieldValueForbidden")
    http.patch(f"{MAPS}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert http.get(f"{MAPS}/a").status_code == 404


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_policies_leave_their_finalizer(http: httpx2.Client, policy: str, finalizer: str) -> None:
    http.post(DEPLOYMENTS, json=deployment())
    body = http.request("DELETE", f"{DEPLOYMENTS}/web", json={"propagationPolicy": policy}).json()
    assert body["metadata"]["finalizers"] == [finalizer]
    assert body["metadata"]["generation"] == 2


def test_delete_preconditions(http: httpx2.Client) -> None:
    made = http.post(MAPS, json=config_map()).json()
    wrong = http.request("DELETE", f"{MAPS}/a", json={"preconditions": {"uid": "other"}}).json()
    assert (wrong["code"], wrong["reason"]) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match" in wrong["message"]
    assert http.request("DELETE", f"{MAPS}/a", json={"preconditions": {"resourceVersion": "1"}}).status_code == 409
    right = http.request("DELETE", f"{MAPS}/a", json={"preconditions": {"uid": made["metadata"]["uid"]}}).json()
    assert (right["kind"], right["status"]) == ("Status", "Success")
    assert right["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


def test_a_pod_on_a_node_ends_gracefully(http: httpx2.Client) -> None:
    http.post(PODS, json=pod(nodeName="n1", terminationGracePeriodSeconds=20))
    ending = http.delete(f"{PODS}/a").json()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 20
    assert http.get(f"{PODS}/a").status_code == 200
    shorter = http.request("DELETE", f"{PODS}/a", json={"gracePeriodSeconds": 5}).json()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    http.request("DELETE", f"{PODS}/a", json={"gracePeriodSeconds": 0})
    assert http.get(f"{PODS}/a").status_code == 404
    http.post(PODS, json=pod("b"))
    http.delete(f"{PODS}/b")
    assert http.get(f"{PODS}/b").status_code == 404


def test_binding_and_eviction(http: httpx2.Client) -> None:
    http.post(PODS, json=pod())
    bind = {"target": {"kind": "Node", "name": "n1"}}
    assert http.post(f"{PODS}/a/binding", json=bind).status_code == 201
    assert http.post(f"{PODS}/a/binding", json=bind).json()["message"].endswith('pod a is already assigned to node "n1"')
    body = http.get(f"{PODS}/a").json()
    assert (body["spec"]["nodeName"], body["status"]["conditions"][0]["type"]) == ("n1", "PodScheduled")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
    http.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", json=budget)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    http.patch(f"{PODS}/a/status", json=running, headers=MERGE)
    refused = http.post(f"{PODS}/a/eviction", json={"metadata": {"name": "a"}})
    assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyRequests")
    assert refused.json()["details"]["causes"][0]["reason"] == "DisruptionBudget"
    http.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b")
    assert http.post(f"{PODS}/a/eviction", json={"metadata": {"name": "a"}}).status_code == 201
    assert "deletionTimestamp" in http.get(f"{PODS}/a").json()["metadata"]


def test_service_account_tokens_authenticate(http: httpx2.Client) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = http.post(path, json={"spec": {"audiences": None, "expirationSeconds": 600}})
    token = answer.json()["status"]["token"]
    who = http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers={"Authorization": f"Bearer {token}"}).json()
    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    claims = http.get("/openid/v1/jwks").json()["keys"][0]
    assert claims["alg"] == "RS256"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"k8s\x00", 400),
        (b"k8s\x00\x0a\xff", 400),
        (b"no protobuf", 400),
        (b"k8s\x00\x0a\x12\x0a\x0bexample/v1\x00\x12\x03Any", 415),
    ],
)
def test_protobuf_that_is_none_or_of_a_foreign_kind_is_refused(http: httpx2.Client, content: bytes, status: int) -> None:
    answer = http.post("/api/v1/namespaces", content=content, headers={"Content-Type": "application/vnd.kubernetes.protobuf"})
    assert (answer.status_code, answer.json()["kind"]) == (status, "Status"), answer.text


def test_yaml_bodies_keep_dates_as_text(http: httpx2.Client) -> None:
    text = "metadata: {name: a}\ndata:\n  day: 2026-11-30\n  version: '1'\n"
    answer = http.post(MAPS, content=text.replace("2026-11-30", "'2026-11-30'").encode(), headers={"Content-Type": "application/yaml"})
    assert answer.json()["data"] == {"day": "2026-11-30", "version": "1"}


def test_owner_index_and_references(http: httpx2.Client) -> None:
    owner = http.post(MAPS, json=config_map("owner")).json()["metadata"]
    body = config_map("child")
    body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}]
    assert http.post(MAPS, json=body).status_code == 201
    body["metadata"] = {"name": "other", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}]}
    assert "metadata.ownerReferences.uid: Invalid value" in http.post(MAPS, json=body).json()["message"]
