"""The OpenTelemetry SDK behind ``tracing``: imported only when traces are sent somewhere. Its provider is ours alone, not the process's.

Libraries that trace by themselves (MCP's SDK does) put arguments and texts into their spans; they find no provider, so none is sent.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Iterator, Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from instantstart.base import log
from instantstart.base.tracing import Parent, Span, Value

#: real seconds: an unreachable collector holds nobody longer, at the end neither
EXPORT_SECONDS = 5.0
_MOST_CHARACTERS = 256


class Recorded(Span):
    """A span that goes out."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.has_failed = False

    def note(self, **attributes: Value | None) -> None:
        """Add attributes; ``__`` in a name stands for a dot."""
        self._span.set_attributes(_told(attributes))

    def named(self, name: str) -> None:
        """Call it otherwise."""
        self._span.update_name(name)

    def failed(self, kind: str) -> None:
        """It ended badly."""
        self.has_failed = True
        self._span.set_attribute("error.type", kind[:_MOST_CHARACTERS])
        self._span.set_status(StatusCode.ERROR)

    @property
    def place(self) -> Parent | None:
        """Where it is."""
        context = self._span.get_span_context()
        return Parent(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled)


class _ChosenIds(IdGenerator):
    """Random ids, but where one was chosen by ``next_is``."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._chosen = threading.local()

    @contextlib.contextmanager
    def next_is(self, place: Parent) -> Iterator[None]:
        self._chosen.place = place
        try:
            yield
        finally:
            self._chosen.place = None

    def generate_span_id(self) -> int:
        place: Parent | None = getattr(self._chosen, "place", None)
        return int(place.span_id, 16) if place else self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        place: Parent | None = getattr(self._chosen, "place", None)
        return int(place.trace_id, 16) if place else self._random.generate_trace_id()


class Exporting:
    """Makes spans and sends them in batches, from a thread of the SDK's."""

    def __init__(self, endpoint: str, ratio: float, *, version: str, replica: str) -> None:
        about = {"service.name": "instantstart", "service.version": version, "service.instance.id": replica}
        self._ids = _ChosenIds()
        sampler = ParentBased(TraceIdRatioBased(ratio))
        self._provider = TracerProvider(sampler=sampler, resource=Resource.create(about), id_generator=self._ids, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
        self._tracer = self._provider.get_tracer("instantstart")

    def entered(
        self, name: str, parent: Parent | None, *, served: bool, attributes: Mapping[str, Value | None]
    ) -> contextlib.AbstractContextManager[Span]:
        """A span under ``parent``, or at the root of a trace of its own."""
        return self._open(name, _context(parent), SpanKind.SERVER if served else SpanKind.INTERNAL, attributes)

    def calling(self, name: str, attributes: Mapping[str, Value | None]) -> contextlib.AbstractContextManager[Span]:
        """A span under the present one."""
        if not trace.get_current_span().get_span_context().is_valid:
            return contextlib.nullcontext(Span())
        return self._open(name, None, SpanKind.CLIENT, attributes)

    @contextlib.contextmanager
    def _open(self, name: str, context: Context | None, kind: SpanKind, attributes: Mapping[str, Value | None]) -> Iterator[Span]:
        made = self._tracer.start_span(name, context, kind, _told(attributes))
        told = Recorded(made)
        with trace.use_span(made, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield told
            except BaseException as error:
                if not told.has_failed:
                    told.failed(str(getattr(error, "code", "") or type(error).__name__))
                raise

    def afterwards(
        self, name: str, place: Parent, parent: Parent | None, times: tuple[dt.datetime, dt.datetime], facts: Mapping[str, Value | None]
    ) -> None:
        """A span at a known place, from one moment to another."""
        began, ended = (int(at.timestamp() * 1e9) for at in times)
        with self._ids.next_is(place):
            made = self._tracer.start_span(name, _context(parent), SpanKind.INTERNAL, _told(facts), start_time=began)
        if "error__type" in facts:
            made.set_status(StatusCode.ERROR)
        made.end(ended)

    def close(self) -> None:
        """Send what is left."""
        self._provider.force_flush(int(EXPORT_SECONDS * 1000))
        self._provider.shutdown()


def _context(parent: Parent | None) -> Context:
    if parent is None:
        return trace.set_span_in_context(trace.INVALID_SPAN)
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    return trace.set_span_in_context(NonRecordingSpan(SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, flags)))


def _told(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """Attributes as they go out: bounded, through the redaction filter; what is not known is left out."""
    told: dict[str, Value] = {}
    for name, value in attributes.items():
        if value is not None:
            told[name.replace("__", ".")] = str(log.redact(value))[:_MOST_CHARACTERS] if isinstance(value, str) else value
    return told
