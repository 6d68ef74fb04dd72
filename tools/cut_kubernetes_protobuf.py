"""Write the numbers, names and types of the fields of built-in messages to the sandbox's data, so that it reads protobuf bodies.

They are facts of the wire, told by the Go modules of the Kubernetes API (field numbers and types by generated.proto; what JSON leaves
out, and what is inlined, by the tags in types.go), which building the reference fetches: ``python -m tools.cut_kubernetes_protobuf``.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from instantstart_sandbox.kubernetes import protobuf

VERSION = "v0.34.4"
API = (
    "core/v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "rbac/v1", "networking/v1", "storage/v1",
    "scheduling/v1", "coordination/v1", "discovery/v1", "events/v1", "node/v1", "authentication/v1", "authorization/v1",
    "admissionregistration/v1",
)  # fmt: skip
META = "meta/v1"
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) )?(map<string, ?[\w.]+>|[\w.]+) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"^\s*(?P<before>[^/`\n]*)`json:\"(?P<json>[^\"]*)\"[^`]*protobuf:\"\w+,(?P<number>\d+),", re.MULTILINE)
_SCALARS = {"string": "string", "bool": "bool", "bytes": "bytes", "double": "double"} | dict.fromkeys(("int32", "int64", "uint32"), "int")

Field = list[str]


def modules() -> Path:
    """Go's module cache. Exits where there is no Go."""
    told = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False)
    found = Path(told.stdout.strip()) / "k8s.io"
    return found if (found / f"api@{VERSION}").exists() else sys.exit(f"no module k8s.io/api@{VERSION}: build the reference first")


def tags(text: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Struct -> field number -> (name in JSON, flags): p pointer, z written though empty, i inlined."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for name, body in _STRUCT.findall(text):
        for tag in _TAG.finditer(body):
            type_ = (tag["before"].split() or [""])[-1]
            json_name, *options = tag["json"].split(",")
            flags = ("p" if type_.startswith("*") else "") + ("" if "omitempty" in options else "z") + ("i" if "inline" in options else "")
            found.setdefault(name, {})[tag["number"]] = (json_name, flags)
    return found


def spelled(type_: str, package: str) -> str:
    """A type as the table spells it: a scalar, ``[]`` or ``{}`` before the item's, a message with its package."""
    if type_.startswith("map<"):
        return "{}" + spelled(type_[:-1].partition(",")[2].strip(), package)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    head, _, name = type_.rpartition(".")
    known = re.match(r"\.k8s\.io\.(?:api|apimachinery\.pkg\.apis)\.(\w+)\.(\w+)$", head)
    return f"{known[1]}/{known[2]}.{name}" if known else name if head else f"{package}.{name}"


def messages(folder: Path, package: str) -> Iterator[tuple[str, dict[str, Field]]]:
    """Every message of a package that is a struct in Go, or a named list."""
    known = tags("\n".join(path.read_text() for path in sorted(folder.glob("*types*.go"))))
    for name, body in _MESSAGE.findall((folder / "generated.proto").read_text()):
        fields: dict[str, Field] = {}
        for label, type_, field, number in _FIELD.findall(body):
            told = spelled(type_, package)
            is_list = name not in known and field == "items"
            json_name, flags = ("", "l") if is_list else known.get(name, {}).get(number, (field, ""))
            fields[number] = [json_name, f"[]{told}" if label == "repeated" else told, flags]
        if fields and (name in known or [f[2] for f in fields.values()] == ["l"]):
            yield f"{package}.{name}", fields


def main() -> None:
    """Write the table."""
    cache, found = modules(), dict[str, dict[str, Field]]()
    for package in API:
        found |= dict(messages(cache / f"api@{VERSION}" / package, package))
    found |= dict(messages(cache / f"apimachinery@{VERSION}" / "pkg/apis" / META, META))
    text = json.dumps({name: found[name] for name in sorted(found)}, separators=(",", ":"))
    protobuf.FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
