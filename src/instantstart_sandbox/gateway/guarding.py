"""Guards around moto's answer: run in order, each may refuse, act before or after, or change the parsed answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context, Guard


class Inner:
    """What is guarded: asked at most once; parsed only when a guard wants to see the answer (parsing is dear)."""

    def __init__(self, call: wire.Call, ask: Callable[[], wire.Answer]) -> None:
        self._call, self._ask = call, ask
        self._answer: wire.Answer | None = None
        self._parsed: dict[str, Any] | None = None

    def answer(self) -> wire.Answer:
        """The raw answer; AwsError when it is an error."""
        if self._answer is None:
            self._answer = self._ask()
            if self._answer.status >= 300:
                self.parsed()
        return self._answer

    def parsed(self) -> dict[str, Any]:
        """The answer's members; AwsError when it is an error."""
        if self._parsed is None:
            answer = self._answer or self.answer()
            self._parsed = self._parsed or wire.parsed(self._call, answer)
        return self._parsed


class OwnedInner:
    """An owned handler as what is guarded."""

    def __init__(self, ask: Callable[[], dict[str, Any]]) -> None:
        self._ask = ask
        self._result: dict[str, Any] | None = None

    def answer(self) -> object:
        """Run the handler, once."""
        return self.parsed()

    def parsed(self) -> dict[str, Any]:
        """The handler's answer."""
        if self._result is None:
            self._result = self._ask()
        return self._result


class Chain:
    """The guards of one call."""

    def __init__(self, guards: list[Guard], context: Context, params: dict[str, Any], inner: Inner | OwnedInner) -> None:
        self._guards, self._context, self._params, self._inner = guards, context, params, inner

    def run(self) -> dict[str, Any] | None:
        """The answer as the guards want it; None: moto's, untouched."""
        return self._run(0)

    def _run(self, index: int) -> dict[str, Any] | None:
        if index == len(self._guards):
            self._inner.answer()
            return None
        made: list[dict[str, Any] | None] = []

        def rest() -> dict[str, Any] | None:
            if not made:
                made.append(self._run(index + 1))
            return made[0]

        def proceed() -> dict[str, Any]:
            found = rest()
            return self._inner.parsed() if found is None else found

        result = self._guards[index](self._context, self._params, proceed)
        return rest() if result is None else result


def refuse_if(condition: object, code: str, message: str) -> None:
    """Raise an AwsError when the condition holds."""
    if condition:
        raise AwsError(code, message)
