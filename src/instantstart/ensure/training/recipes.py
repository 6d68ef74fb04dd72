"""Entry points that run in containers: files of ``recipes/``, which travel into the cluster in a ConfigMap, so that any image will do."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

#: beside the package in a wheel; beside ``src`` in a checkout
_PLACES = (Path(str(resources.files("instantstart"))) / "recipes", Path(__file__).parents[4] / "recipes")


def path(name: str) -> Path:
    """Where a recipe's file is, such as ``download/fetch.py``."""
    for place in _PLACES:
        if (place / name).is_file():
            return place / name
    raise FileNotFoundError(f"recipe {name} is not in this installation")


def source(name: str) -> str:
    """The text of a recipe's file."""
    return path(name).read_text(encoding="utf-8")


def config_map(name: str, namespace: str, *files: str) -> dict[str, object]:
    """A ConfigMap with the files, by their base names."""
    data = {file.rpartition("/")[2]: source(file) for file in files}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def digest(*files: str) -> str:
    """Eight characters that change whenever one of the files does."""
    return hashlib.sha256("\0".join(source(file) for file in files).encode()).hexdigest()[:8]
