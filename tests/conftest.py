"""For every test."""

from __future__ import annotations

from pathlib import Path

import pytest

_BROWSER = Path(__file__).parent / "e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests go last: Playwright keeps an event loop running in this thread, and no ``asyncio.run`` works beside it."""
    items.sort(key=lambda item: item.path.is_relative_to(_BROWSER))
