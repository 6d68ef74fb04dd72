"""Dynamic references: ``{{resolve:ssm:/name:3}}`` and ``{{resolve:secretsmanager:id:SecretString:key}}`` inside property values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services.cloudformation.wording import invalid

Ask = Callable[[str], Any]
_REFERENCE = re.compile(r"\{\{resolve:([a-z-]+):([^{}]+)\}\}")


def replace(value: Any, ask: Ask) -> Any:
    """The value with every dynamic reference looked up; ``ask(service)`` gives a boto3 client. AwsError for one that has no answer."""
    if isinstance(value, dict):
        return {key: replace(item, ask) for key, item in value.items()}
    if isinstance(value, list):
        return [replace(item, ask) for item in value]
    if isinstance(value, str) and "{{resolve:" in value:
        return _REFERENCE.sub(lambda match: _look_up(match[1], match[2], ask), value)
    return value


def _look_up(service: str, text: str, ask: Ask) -> str:
    try:
        if service == "ssm":
            return str(ask("ssm").get_parameter(Name=text)["Parameter"]["Value"])
        if service == "secretsmanager":
            return _secret(text, ask)
    except ClientError as error:
        raise invalid(f"Could not resolve the dynamic reference {service}:{text}: {error.response['Error'].get('Message', '')}") from error
    raise invalid(f"Dynamic reference {service} is not supported by the sandbox: {{{{resolve:{service}:{text}}}}}")


def _secret(text: str, ask: Ask) -> str:
    if text.startswith("arn:"):
        parts = text.split(":")
        name, rest = ":".join(parts[:7]), parts[7:]
    else:
        name, *rest = text.split(":")
    kind, key, stage, version = [*rest, "", "", "", ""][:4]
    if kind not in ("", "SecretString"):
        raise invalid(f"Dynamic reference to {kind} of a secret: only SecretString is supported")
    asked = {k: v for k, v in (("VersionStage", stage), ("VersionId", version)) if v}
    secret = str(ask("secretsmanager").get_secret_value(SecretId=name, **asked)["SecretString"])
    if not key:
        return secret
    try:
        return str(json.loads(secret)[key])
    except (ValueError, KeyError, TypeError) as error:
        raise invalid(f"Could not find a value associated with JSONKey {key} in SecretString") from error
