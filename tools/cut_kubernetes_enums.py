"""Write the values that fields of built-in kinds may have (``kubectl explain`` shows them) to the sandbox's data.

The definitions of PyPI's kubernetes-validate do not carry them; a running reference (``make kube-reference``) does:
``python -m tools.cut_kubernetes_enums``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.differential.sides import NO_REFERENCE, reference

from instantstart_sandbox.kubernetes import schema

TARGET = Path(schema.__file__).parent / "data" / "enums.json"


def values(property_: dict[str, Any]) -> list[str] | None:
    """The values that a property, or each of its items, may have."""
    places = [property_, property_.get("items") or {}, *(property_.get("allOf") or ())]
    return next((place["enum"] for place in places if place.get("enum")), None)


def main() -> None:
    """Ask the reference for its OpenAPI documents and keep the enumerations of the kinds that the sandbox serves."""
    side = reference()
    if side is None:
        sys.exit(NO_REFERENCE)
    known, found = schema.definitions(), dict[str, dict[str, list[str]]]()
    with side.client() as client:
        for path in client.get("/openapi/v3").json()["paths"]:
            document = client.get(f"/openapi/v3/{path}").json()
            for name, definition in document.get("components", {}).get("schemas", {}).items():
                for field, property_ in (definition.get("properties") or {}).items():
                    if name in known and (allowed := values(property_)):
                        found.setdefault(name, {})[field] = allowed
    lines = [f" {json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in sorted(found.items())]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
