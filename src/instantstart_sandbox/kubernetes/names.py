"""The forms of names, label keys and label values, with the API server's sentences about what does not have them."""

from __future__ import annotations

import re
from typing import Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value
from instantstart_sandbox.kubernetes.resources import Resource

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_USED: Final = "regex used for validation is"
LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    f"alphanumeric character (e.g. 'my-name',  or '123-abc', {_USED} '{LABEL}')"
)
LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
    f"alphanumeric character (e.g. 'my-name',  or 'abc-123', {_USED} '{LABEL_1035}')"
)
SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'example.com', {_USED} '{SUBDOMAIN}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', {_USED} '{_VALUE}')"
)
_KEY_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', {_USED} '{_KEY_NAME}')"
)
_LONGEST_LABEL: Final = "must be no more than 63 bytes"
_RBAC: Final = "rbac.authorization.k8s.io"


def name_causes(name: str, resource: Resource, field: str = "metadata.name") -> list[Cause]:
    """Violations of an object's name by the rule of its kind."""
    shown = f'"{name}"'
    if resource.group == _RBAC:
        bad = next((c for c in ("/", "%") if c in name), None)
        return [bad_value(field, shown, f"may not contain '{bad}'")] if bad else []
    pattern, limit, text = SUBDOMAIN, 253, SUBDOMAIN_TEXT
    if resource.qualified == "namespaces":
        pattern, limit, text = LABEL, 63, LABEL_TEXT
    elif resource.qualified == "services":
        pattern, limit, text = LABEL_1035, 63, LABEL_1035_TEXT
    causes = []
    if len(name) > limit:
        causes.append(bad_value(field, shown, f"must be no more than {limit} bytes"))
    if not re.fullmatch(pattern, name):
        causes.append(bad_value(field, shown, text))
    return causes


def key_causes(key: str, field: str) -> list[Cause]:
    """Violations of a label's or annotation's key."""
    prefix, slash, name = key.rpartition("/")
    shown = f'"{key}"'
    causes = []
    if slash and not prefix:
        causes.append(bad_value(field, shown, "prefix part must be non-empty"))
    elif prefix and not re.fullmatch(SUBDOMAIN, prefix):
        causes.append(bad_value(field, shown, f"prefix part {SUBDOMAIN_TEXT}"))
    if not name:
        causes.append(bad_value(field, shown, "name part must be non-empty"))
    elif len(name) > 63:
        causes.append(bad_value(field, shown, f"name part {_LONGEST_LABEL}"))
    if not re.fullmatch(_KEY_NAME, name):
        causes.append(bad_value(field, shown, _KEY_TEXT))
    return causes


def value_text(value: str) -> str:
    """The sentence about a bad label value; empty when it is good."""
    if len(value) > 63:
        return _LONGEST_LABEL
    return "" if re.fullmatch(_VALUE, value) else _VALUE_TEXT


def label_causes(labels: dict[str, str], field: str) -> list[Cause]:
    """Violations of label keys and values."""
    causes = []
    for key, value in sorted(labels.items()):
        causes += key_causes(key, field)
        text = value_text(value)
        if text:
            causes.append(bad_value(field, f'"{value}"', text))
    return causes


def data_key_causes(key: str, field: str) -> list[Cause]:
    """Violations of a key of a ConfigMap or Secret."""
    text = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
        f"{_USED} '[-._a-zA-Z0-9]+')"
    )
    return [] if key and re.fullmatch(r"[-._a-zA-Z0-9]+", key) and len(key) <= 253 else [bad_value(field, f'"{key}"', text)]


def finalizer_causes(name: str, field: str) -> list[Cause]:
    """Violations of a finalizer: a standard one or one with a domain."""
    if "/" in name:
        return key_causes(name, field)
    if name in ("orphan", "foregroundDeletion", "kubernetes"):
        return []
    return [bad_value(field, f'"{name}"', "name is neither a standard finalizer name nor is it fully qualified")]


def owner_causes(owner: dict[str, object], field: str) -> list[Cause]:
    """Violations of an owner reference."""
    causes = []
    for name in ("apiVersion", "kind", "name", "uid"):
        if not owner.get(name):
            text = "version must not be empty" if name == "apiVersion" else "must not be empty"
            causes.append(bad_value(f"{field}.{name}", '""', text))
    return causes
