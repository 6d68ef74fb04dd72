"""For every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

_BROWSER = Path(__file__).parent / "e2e"

# how long an example takes is the machine's affair: on a busy one a right answer came too late to count
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests go last: Playwright keeps an event loop running in this thread, and no ``asyncio.run`` works beside it."""
    items.sort(key=lambda item: item.path.is_relative_to(_BROWSER))
