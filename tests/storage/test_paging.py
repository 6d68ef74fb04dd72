"""A cursor leads on from where a page ended, and what no page gave is refused by its field, before AWS is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import problems
from instantstart.capabilities import paging


@given(st.sets(st.text(min_size=1)), st.integers(1, 4))
def test_pages_together_are_the_list(keys: set[str], limit: int) -> None:
    items, cursor, seen = sorted(keys), None, list[str]()
    while True:
        part: paging.Page[str] = paging.page(items, str, limit, cursor)
        seen += part.items
        if (cursor := part.cursor) is None:
            break
    assert seen == items


@pytest.mark.parametrize("cursor", ["x", "default/data", "é", "bnVsbA", "WzFd", "IjEi", "eyJhIjoiYiJ9IA", "==", "[]"])
def test_what_no_page_gave_is_refused_with_its_pointer(cursor: str) -> None:
    with pytest.raises(problems.Invalid) as refused:
        paging.page(["a"], str, 1, cursor)
    assert (refused.value.code, [f.pointer for f in refused.value.fields]) == ("list.cursor", ["/cursor"])


@given(st.text(min_size=1))
def test_a_token_of_aws_comes_back_as_it_was(token: str) -> None:
    written: Any = paging.write(token)
    assert paging.read(written) == token
    assert paging.write(None) is None
