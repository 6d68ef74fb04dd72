"""Which parameters may be repeated, as the document describes them."""

from __future__ import annotations

import pytest
from fastapi import Depends, FastAPI, Query
from fastapi.testclient import TestClient

from instantstart.base import problems
from instantstart.faces.api import queries


@pytest.fixture
def client() -> TestClient:
    app = FastAPI(dependencies=[Depends(queries.only_described)])

    @app.get("/x", operation_id="x_list")
    def x(one: str = "", many: list[str] = Query([]), maybe: list[str] | None = Query(None)) -> list[str]:
        return [one, *many, *(maybe or ())]

    return TestClient(app)


@pytest.mark.parametrize("query", ["many=a&many=b", "maybe=a&maybe=b", "one=a&many=b"])
def test_lists_may_be_repeated_also_those_that_may_be_left_out(client: TestClient, query: str) -> None:
    assert client.get(f"/x?{query}").status_code == 200


@pytest.mark.parametrize("query", ["one=a&one=b", "on=a"])
def test_what_is_no_list_may_not_and_what_is_unknown_is_refused(client: TestClient, query: str) -> None:
    with pytest.raises(problems.Invalid):
        client.get(f"/x?{query}")
