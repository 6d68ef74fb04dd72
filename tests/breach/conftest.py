"""One ready cluster behind a real server, for all that is tried on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.breach.ground import Ground, standing


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The world that is tried to be broken into."""
    with standing(tmp_path_factory.mktemp("ground")) as made:
        yield made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The same on an empty account."""
    with standing(tmp_path_factory.mktemp("bare"), cluster=False) as made:
        yield made
