"""Both sides, started once for the whole comparison."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.differential.sides import NO_REFERENCE, Side, reference, sandbox


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """The sandbox's Kubernetes with its controllers and without machines."""
    server, side = sandbox(tmp_path_factory.mktemp("sandbox"))
    yield side
    server.close()


@pytest.fixture(scope="session")
def maybe_real() -> Side | None:
    """The real one, if there is one."""
    return reference()


@pytest.fixture(scope="session")
def real(maybe_real: Side | None) -> Side:
    """The real one; skips without."""
    if maybe_real is None:
        pytest.skip(NO_REFERENCE)
    return maybe_real
