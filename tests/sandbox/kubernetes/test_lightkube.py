"""The client library of the product, lightkube, against the sandbox."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpx2
import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

from .conftest import World
from .objects import DEFINITIONS, deployment, widget_definition

Widget = create_namespaced_resource("example.com", "v1", "Widget", "widgets")


@pytest.fixture
def client(world: World) -> Iterator[lightkube.Client]:
    config = KubeConfig.from_dict(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": world.endpoint.url}}],
            "users": [{"name": "u", "user": {"token": "admin-token"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )
    transport = httpx2.HTTPTransport(verify=ssl.create_default_context(cadata=world.endpoint.ca_pem))
    yield lightkube.Client(config=config, field_manager="product", transport=transport)
    transport.close()


def typed(replicas: int) -> Deployment:
    body = deployment(replicas=replicas)
    body["metadata"]["namespace"] = "default"
    built = Deployment.from_dict(body)
    assert isinstance(built, Deployment)
    return built


def test_create_get_list_patch_delete(client: lightkube.Client) -> None:
    client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default", labels={"x": "y"}), data={"k": "v"}))
    assert client.get(ConfigMap, "a").data == {"k": "v"}
    assert [m.metadata.name for m in client.list(ConfigMap, labels={"x": "y"})] == ["a"]  # type: ignore[union-attr]
    client.patch(ConfigMap, "a", {"data": {"k": "2"}}, patch_type=PatchType.MERGE)
    with pytest.raises(ApiError) as refused:
        client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    assert (refused.value.status.code, refused.value.status.reason) == (409, "AlreadyExists")
    client.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as missing:
        client.get(ConfigMap, "a")
    assert missing.value.status.reason == "NotFound"


def test_apply_and_conflict(client: lightkube.Client) -> None:
    applied = client.apply(typed(2))
    assert applied.spec is not None
    assert applied.spec.replicas == 2
    with pytest.raises(ApiError) as refused:
        client.apply(typed(3), field_manager="other")
    assert refused.value.status.code == 409
    assert [c.field for c in refused.value.status.details.causes] == [".spec.replicas"]  # type: ignore[union-attr]


def test_custom_resources(world: World, client: lightkube.Client) -> None:
    with world.http() as http:
        http.post(DEFINITIONS, json=widget_definition())
    body = Widget(metadata=ObjectMeta(name="w", namespace="default"), spec={"color": "red"})
    assert client.apply(body).spec == {"color": "red", "size": 3}
    with pytest.raises(ApiError) as refused:
        client.create(Widget(metadata=ObjectMeta(name="x", namespace="default"), spec={"color": "green"}))
    assert refused.value.status.code == 422


def test_a_forbidden_call_keeps_its_sentence(world: World, client: lightkube.Client) -> None:
    with pytest.raises(ApiError) as missing:
        list(client.log("none", namespace="default"))
    assert missing.value.status.code == 404
    assert list(client.list(Pod, namespace="*")) == []
