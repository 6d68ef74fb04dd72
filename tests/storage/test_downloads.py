"""Models of the sandbox's hub, really fetched into a mounted bucket by the job that the product makes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.clusters.crank import Turned
from tests.clusters.worlds import REGION
from tests.storage.conftest import Standing

from instantstart.base import problems
from instantstart.capabilities.storage.downloads import plans, rules, specs, views, workflows
from instantstart.ensure.storage import images
from instantstart_sandbox.services.hub import REPOSITORIES

TINY = "sandbox/tiny-model"


def ask(**more: Any) -> specs.DownloadTarget:
    """A download into the claim of the main job."""
    return specs.DownloadTarget(tag="demo", region=REGION, **{"repository": TINY, **more})


def download(standing: Standing, **more: Any) -> Turned:
    """Turn it to its end. The job is a real process: its seconds are the wall's, so the crank is turned slowly."""
    turned = standing.crank.run(workflows.DOWNLOAD_MODEL, ask(**more), until="inspect")
    until = time.monotonic() + 90
    while turned.problem is None and not turned.stages["transfer"].done:
        assert time.monotonic() < until, turned.said
        standing.crank.turn(turned, ticks=1)
        time.sleep(0.1)
    return turned


def keys(standing: Standing, prefix: str) -> dict[str, int]:
    """The objects below a prefix with their sizes."""
    bucket = standing.where.names.data_bucket
    told = standing.where.aws.pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    return {o["Key"].removeprefix(prefix): o["Size"] for o in told}


def store_token(standing: Standing, token: str) -> None:
    """A Secret with the hub's token."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub", "namespace": "default"}, "stringData": {"token": token}}
    standing.kube.apply(secret)


def test_a_model_is_fetched_verified_marked_and_not_fetched_again(standing: Standing) -> None:
    made = download(standing)
    assert made.problem is None, made.problem
    wanted = REPOSITORIES[TINY]
    found = keys(standing, f"models/{TINY}/")
    assert {k: v for k, v in found.items() if not k.startswith(".")} == wanted.files
    assert made.result["bytes"] == sum(wanted.files.values())
    assert made.result["commit"] == wanted.commit
    listed = views.list_models(standing.room, "demo")
    assert [(m.repository, m.commit, m.claim) for m in listed.items] == [(TINY, wanted.commit, "default/s3-claim")]
    again = download(standing)
    assert again.result["already"] == len(wanted.files)


def test_patterns_choose_the_files_and_a_dataset_has_its_own_place(standing: Standing) -> None:
    made = download(standing, repository="sandbox/tiny-text", kind="dataset", include=["data/*"], exclude=["*test*"], folder="corpora/tiny")
    assert made.problem is None, made.problem
    assert {k for k in keys(standing, "corpora/tiny/") if not k.startswith(".")} == {"data/train.jsonl"}


@pytest.mark.parametrize(
    ("more", "token", "code"),
    [
        ({"repository": "sandbox/gated-model"}, None, "hub.token_needed"),
        ({"repository": "sandbox/gated-model", "token_secret": "hub"}, "hf_stranger\n", "hub.licence_not_accepted"),
        ({"repository": "sandbox/no-such-model"}, None, "hub.repository_not_found"),
        ({"repository": "sandbox/private-model"}, None, "hub.repository_not_found"),
        ({"revision": "no-such-branch"}, None, "hub.revision_not_found"),
        ({"token_secret": "nowhere"}, None, "hub.token_secret_missing"),
    ],
)
def test_what_the_hub_refuses_is_told_before_any_job(standing: Standing, more: dict[str, Any], token: str | None, code: str) -> None:
    if token:
        store_token(standing, token)
    with pytest.raises(problems.Problem) as refused:
        plans.checked(standing.room, standing.where, ask(**more))
    assert refused.value.code == code
    assert standing.kube.list("Job", "default") == []


def test_a_gated_model_comes_with_a_token_that_is_only_in_its_secret(standing: Standing) -> None:
    store_token(standing, "hf_sandbox\n")
    made = download(standing, repository="sandbox/gated-model", token_secret="hub")
    assert made.problem is None, made.problem
    assert "hf_sandbox" not in json.dumps(standing.kube.list("Job", "default"))
    assert "hf_sandbox" not in json.dumps(made.learned)


@pytest.mark.parametrize("mode", ["torn", *(pytest.param(each, marks=pytest.mark.slow) for each in ("throttle", "failing", "html"))])
def test_a_hub_in_bad_weather_still_gives_whole_files(standing: Standing, mode: str) -> None:
    standing.sandbox.admin("hub", mode=mode, count=1)
    made = download(standing)
    assert made.problem is None, made.problem
    assert {k: v for k, v in keys(standing, f"models/{TINY}/").items() if not k.startswith(".")} == REPOSITORIES[TINY].files


@pytest.mark.parametrize("folder", ["..", "../../etc", "a/../b", "."])
def test_a_folder_does_not_lead_out_of_its_volume(folder: str) -> None:
    with pytest.raises(ValueError, match="would lead out of"):
        ask(folder=folder)
    assert ask(folder="models/v1..2/.cache").place == "models/v1..2/.cache"


@pytest.mark.parametrize(
    ("image", "right"),
    [
        ("public.ecr.aws/docker/library/python:3.12-slim", True),
        ("localhost:5000/a__b/c@sha256:" + "0" * 64, True),
        ("python", True),
        (" ", False),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/x:y:z@@", False),
        ("Python:1", False),
        ("a/b@sha256:0", False),
    ],
)
def test_what_is_no_image_reference_is_told(image: str, right: bool) -> None:
    nobody: Any = None  # AWS is asked neither of a wrong reference nor of a registry of others
    assert (images.check(nobody, image).level != "fail") is right


def test_wrong_answers_are_told_together(standing: Standing) -> None:
    wrong = ask(include=["*.gguf"], claim_name="nowhere", cpu="9999", memory="9999Ti")
    facts = rules.observe(standing.room, standing.where, wrong)
    refused = rules.refusal(wrong, facts, rules.findings(wrong, facts))
    assert refused is not None
    assert {f.pointer for f in refused.fields} == {"/include", "/claim_name", "/cpu", "/memory"}


def test_an_image_that_is_not_in_ecr_is_told_in_our_words(standing: Standing) -> None:
    ecr, aws = standing.sandbox.client("ecr"), standing.where.aws
    uri = ecr.create_repository(repositoryName="team/train")["repository"]["repositoryUri"]
    for image, told in (
        (f"{uri}:v9", "The ECR repository team/train has no image with the tag v9."),
        (f"{uri}@sha256:{'0' * 64}", f"The ECR repository team/train has no image with the digest sha256:{'0' * 64}."),
        (f"{uri}x:v9", f"There is no ECR repository team/trainx in {REGION}."),
    ):
        found = images.check(aws, image)
        assert (found.level, found.detail) == ("fail", told)


@pytest.mark.parametrize(("token", "told"), [("", "is empty"), (" \n", "is empty"), ("two words", "one word"), ("x" * 501, "one word")])
def test_what_is_no_token_is_told_without_repeating_it(token: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        specs.PutHubToken.model_validate({"token": token})
    assert not token.strip() or token not in str(refused.value)
    assert specs.PutHubToken.model_validate({"token": "hf_x\n"})


def test_a_cancelled_download_leaves_no_job(standing: Standing) -> None:
    turned = standing.crank.run(workflows.DOWNLOAD_MODEL, ask(repository="sandbox/large-model"), until="inspect")
    standing.sandbox.admin("hub", mode="slow", count=10)
    standing.crank.turn(turned, ticks=2)
    (job,) = standing.kube.list("Job", "default")
    name = job["metadata"]["name"]
    gone = standing.run(workflows.CANCEL_DOWNLOAD, specs.CancelTarget, namespace="default", job=name, operation_id="op")
    assert gone.status == "succeeded"
    assert standing.kube.find("Job", name, "default") is None
