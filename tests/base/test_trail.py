"""Log lines: whose they are, that no foreign word makes one of its own, and that no secret is in them."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from instantstart.base import log, tracing, trail

FORGED = 'x\n{"time": "2026-01-01", "level": "ERROR", "message": "forged"}\r\x1b[2J\x1b]0;title\x07\u202eevil\x85next'


@pytest.fixture(params=sorted(log.FORMATS))
def shape(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.Logger("instantstart.test")
    made.propagate = False
    yield made
    made.handlers.clear()


def written(logger: logging.Logger, shape: str, message: str, /, **facts: Any) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(log.FORMATS[shape]())
    logger.handlers[:] = [handler]
    try:
        raise ValueError(message)
    except ValueError as error:
        logger.error(message, exc_info=error if facts.pop("crashed", False) else None, extra={"facts": facts})
    return stream.getvalue()


def test_a_line_is_one_line_whatever_is_told(logger: logging.Logger, shape: str) -> None:
    text = written(logger, shape, FORGED, name=FORGED, nested={"deep": [FORGED]})
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert len(text.splitlines()) == 1


def test_an_exceptions_text_begins_no_line_of_its_own(logger: logging.Logger, shape: str) -> None:
    first, *rest = written(logger, shape, FORGED, crashed=True).splitlines()
    assert all(each.startswith("  | ") and each.isprintable() for each in rest)
    assert first.isprintable()
    assert bool(rest) == (shape == "text")


def test_facts_take_nobodys_place(logger: logging.Logger) -> None:
    line = json.loads(written(logger, "json", "said", level="DEBUG", message="other", time="never", logger="root", more=1))
    assert (line["level"], line["message"], line["logger"], line["more"]) == ("ERROR", "said", "instantstart.test", 1)
    assert line["time"] != "never"


def test_secrets_are_hidden_wherever_they_stand(logger: logging.Logger, shape: str) -> None:
    token = "ist_" + "a" * 40
    text = written(logger, shape, f"with {token}", password="hunter2", url=f"postgres://u:{token}@db/x", crashed=True)
    assert token not in text
    assert "hunter2" not in text


def test_a_line_says_whose_it_is_in_threads_that_copy_the_context_too(logger: logging.Logger) -> None:
    lines: list[dict[str, Any]] = []
    with trail.following(request_id="r-1", cluster=None):
        trail.note(identity_kind="agent")
        copied = contextvars.copy_context()
        worker = threading.Thread(target=lambda: copied.run(lambda: lines.append(json.loads(written(logger, "json", "inside")))))
        worker.start()
        worker.join()
    lines.append(json.loads(written(logger, "json", "outside")))
    assert (lines[0]["request_id"], lines[0]["identity_kind"]) == ("r-1", "agent")
    assert "cluster" not in lines[0]
    assert "request_id" not in lines[1]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", True),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", False),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", False),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_traceparent_is_taken_or_passed_over(text: str | None, fits: bool) -> None:
    found = tracing.parse(text)
    assert (str(found) if found else None) == (text if fits else None)


def test_an_operations_place_is_the_same_everywhere() -> None:
    origin = tracing.parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
    assert origin is not None
    place = tracing.place_of("op-1", origin)
    assert place == tracing.place_of("op-1", origin)
    assert (place.trace_id, place.sampled) == (origin.trace_id, False)
    assert place.span_id != tracing.place_of("op-2", origin).span_id
    assert tracing.parse(str(tracing.place_of("op-1", None))) is not None


def test_spans_cost_nothing_when_nobody_wants_them() -> None:
    assert not tracing.is_on()
    one, other = tracing.entered("a", None), tracing.calling("b", some=1)
    assert one is other
    with one as span:
        span.named("c")
        span.note(more=2)
        span.failed("x")
        assert span.place is None
