"""What the doors of everything that serves have in common: the parts of their addresses and queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from instantstart.base import patterns

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its namespace.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its name.")]
OnlyNamespace = Annotated[str, Query(max_length=63, pattern=patterns.ONLY_NAMESPACE, description="Only of this namespace.")]
Contains = Annotated[str, Query(max_length=100, description="Only with this in name or model.")]
Limit = Annotated[int, Query(ge=1, le=200, description="Most to answer.")]
Cursor = Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")]
