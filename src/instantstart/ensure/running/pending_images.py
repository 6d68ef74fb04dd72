"""Why an image cannot be pulled: containerd's words, sorted by what a person can do about each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from instantstart.ensure.running.pending_words import Resource, Why, short

#: (pattern of the message, code, what is wrong, next step); the first that matches
_REASONS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"toomanyrequests|429|rate limit|pull rate",
        "image.rate_limited",
        "its registry limits how often it may be pulled",
        "Copy the image to your own ECR, or store credentials for the registry.",
    ),
    (
        r"no match for platform|no matching manifest|exec format",
        "image.wrong_architecture",
        "there is none for this node's processor",
        "Push an image for the node's architecture (amd64 or arm64).",
    ),
    (
        r"no space left on device",
        "image.no_space",
        "the node's disk is full",
        "Use a larger volume for the group, or a smaller image; replace the node to free it now.",
    ),
    (
        r"unauthorized|authentication required|no basic auth|denied|403 Forbidden|401",
        "image.access_denied",
        "the registry does not let this node read it (or it is not there)",
        "Check the name; give the node role or an image pull secret access to the repository.",
    ),
    (r"not found|manifest unknown|does not exist|NotFound", "image.not_found", "it is not in the registry", "Check repository and tag."),
    (
        r"x509|certificate",
        "image.certificate",
        "the registry's certificate is not trusted by the node",
        "Use a registry with a public certificate, or add its authority to the nodes.",
    ),
    (
        r"i/o timeout|no such host|connection refused|dial tcp|TLS handshake timeout|deadline exceeded|network is unreachable",
        "image.registry_unreachable",
        "its registry cannot be reached from the node",
        "Check NAT and endpoints of the subnet (ECR needs ecr.api, ecr.dkr and S3), or copy the image to ECR.",
    ),
)


def image_trouble(status: Resource, reason: str, message: str, events: Sequence[Resource]) -> Why:
    """The sentence for a container whose image cannot be had. A back-off tells no cause: the event of the pull does."""
    image, name = status.get("image"), status["name"]
    told = next(iter(t for t in (message, *_pulls(events)) if _match(t)), message)
    evidence = {"container": name, "image": image, "reason": reason, "untrusted_message": short(told)}
    if reason == "InvalidImageName":
        text = f"The image {image} of {name} is no image reference."
        return Why("image.invalid_name", "blocked", text, evidence, "Write it as registry/repository:tag, in lower case.")
    if reason == "ErrImageNeverPull":
        text = f"The image {image} of {name} is not on the node, and its policy forbids to pull it."
        return Why("image.never_pulled", "blocked", text, evidence, "Let it be pulled (imagePullPolicy).")
    found = _match(told)
    if found is None:
        text = f"The image {image} of {name} cannot be pulled ({reason}). {short(told, 200)}".rstrip()
        return Why("image.not_pulled", "blocked", text, evidence, "Look at the pod's events.")
    _, code, what, step = found
    return Why(code, "blocked", f"The image {image} of {name} cannot be pulled: {what}.", evidence, step)


def _match(text: str) -> tuple[str, str, str, str] | None:
    return next((row for row in _REASONS if re.search(row[0], text, re.IGNORECASE)), None)


def _pulls(events: Sequence[Resource]) -> list[str]:
    return [str(e.get("message") or "") for e in events if e.get("reason") == "Failed" and "pull" in str(e.get("message"))]
