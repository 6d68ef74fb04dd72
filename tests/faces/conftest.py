"""The toy house, a client of it, and tokens of each role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.faces import toys


@pytest.fixture
def built(tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """The toy app and its room."""
    app, room = toys.house(tmp_path)
    yield app, room
    room.store.close()


@pytest.fixture
def room(built: tuple[Any, Any]) -> Any:
    """The toy room."""
    return built[1]


@pytest.fixture
def client(built: tuple[Any, Any]) -> Iterator[TestClient]:
    """A client with no identity."""
    with TestClient(built[0], base_url=toys.HOST, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def token(room: Any) -> Callable[..., str]:
    """Makes a token of a role."""

    def make(role: str, kind: str = "person") -> str:
        return str(room.store.identities.create_token(f"{role} {kind}", role, kind)[1])

    return make


@pytest.fixture
def sign(token: Callable[..., str]) -> Callable[..., dict[str, str]]:
    """Headers of an identity of a role."""
    return lambda role, kind="person": {"Authorization": f"Bearer {token(role, kind)}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The toy house with MCP, really listening: ``.url``, ``.room``, ``.token(role, kind)``."""
    with toys.listening(tmp_path_factory.mktemp("served")) as running:
        yield running
