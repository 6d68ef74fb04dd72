"""The weathers: what goes wrong, what a stage may be blocked with because of it, and how a person then mends it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.clusters.crank import Turned
from tests.weather.gremlin import Gremlin
from tests.weather.ground import Ground

from instantstart.aws import tokens
from instantstart.base.outcome import Outcome

#: calls that change something, at AWS and at Kubernetes
CHANGES = r"(?!.*:(Describe|List|Get|Head|Simulate|Search|BatchGet|Lookup)).*"
KUBERNETES_CHANGES = r"kubernetes:(create|update|patch|delete)/(?!.*reviews).*"
Between = Callable[[Turned, str], None]


def _nothing(_ground: Ground) -> None:
    """Fair weather."""


@dataclass(frozen=True)
class Profile:
    """One weather. ``begin`` lets it break out; ``between`` acts before each look of a stage."""

    name: str
    says: str
    begin: Callable[[Ground], None] = _nothing
    between: Callable[[Ground], Between] | None = None
    #: which outcomes are lost: the process died between act and record
    discard: Callable[[], Callable[[str, Outcome], bool]] | None = None
    #: codes of the Problems with which an operation may stand blocked meanwhile; none: it must get through by itself
    reasons: frozenset[str] = frozenset()
    #: calls are struck at random: a run in which none was proves nothing
    strikes: bool = False
    #: what a person does about a blocked operation before the retry
    mend: Callable[[Ground], None] = _nothing


def _throttle(ground: Ground) -> None:
    ground.sandbox.fault(".*", code="throttle", probability=0.2, count=None)
    ground.sandbox.fault("kubernetes:.*", code="throttle", probability=0.2, count=None)


def _errors(ground: Ground) -> None:
    ground.sandbox.fault(".*", code="unavailable", probability=0.15, count=None)
    ground.sandbox.fault("kubernetes:.*", code="unavailable", probability=0.15, count=None)


def _lost(ground: Ground) -> None:
    ground.sandbox.fault(CHANGES, when="after", probability=0.5, count=None)
    ground.sandbox.fault(KUBERNETES_CHANGES, when="after", probability=0.3, count=None)


def _all_at_once(ground: Ground) -> None:
    ground.sandbox.admin("settings", stale_reads=8.0, iam_delay=30.0)
    for match in (".*", "kubernetes:.*"):
        ground.sandbox.fault(match, code="throttle", probability=0.08, count=None)
        ground.sandbox.fault(match, code="unavailable", probability=0.05, count=None)
    ground.sandbox.fault(CHANGES, when="after", probability=0.15, count=None)
    ground.sandbox.fault(KUBERNETES_CHANGES, when="after", probability=0.1, count=None)


def _away(ground: Ground) -> None:
    ground.sandbox.fault("kubernetes:.*", code="away", count=None, lasting=90.0)


def _short_tokens(ground: Ground) -> None:
    ground.sandbox.admin("settings", token_seconds=20.0, token_clock="virtual")


#: over all workflows: two of them may begin within one second
_LOOKS = itertools.count()


def _fresh_signatures(_ground: Ground) -> Between:
    """A token made anew within the same second of the wall is the same token; virtual time may have gone on for minutes meanwhile."""

    def between(_turned: Turned, _stage: str) -> None:
        tokens._EXPIRES_IN = 60 + next(_LOOKS) % 800

    return between


def _settings(**values: float) -> Callable[[Ground], None]:
    def begin(ground: Ground) -> None:
        fields: dict[str, Any] = values
        ground.sandbox.admin("settings", **fields)

    return begin


def _once_in_the_middle(strike: Callable[[Ground], None], every: int = 6) -> Callable[[Ground], Between]:
    """Let something happen at the sixth look of each operation, once."""

    def prepare(ground: Ground) -> Between:
        looks: dict[str, int] = {}

        def between(turned: Turned, _stage: str) -> None:
            looks[turned.id] = looks.get(turned.id, 0) + 1
            if looks[turned.id] == min(every, len(turned.workflow.stages())):
                strike(ground)

        return between

    return prepare


def _expire(ground: Ground) -> None:
    told = "The security token included in the request is expired"
    ground.sandbox.fault(".*", code="ExpiredTokenException", message=told, status=403, count=None)


def _restarts(ground: Ground) -> Between:
    looks = 0

    def between(_turned: Turned, _stage: str) -> None:
        nonlocal looks
        looks += 1
        if looks % 12 == 0:
            ground.sandbox.lose_machine()
            ground.sandbox.start()

    return between


def _lose_each_once() -> Callable[[str, Outcome], bool]:
    seen: set[str] = set()

    def lose(stage: str, outcome: Outcome) -> bool:
        fresh = (key := f"{stage}/{outcome}") not in seen
        seen.add(key)
        return fresh

    return lose


def _lose_at_random() -> Callable[[str, Outcome], bool]:
    chance = random.Random(5)
    return lambda _stage, _outcome: chance.random() < 0.25


CLOCK = frozenset({"aws.clock_off", "kubernetes.clock_skew"})

PROFILES: tuple[Profile, ...] = (
    Profile("throttle", "a fifth of all calls throttled, AWS's and Kubernetes'", _throttle, strikes=True),
    Profile("errors", "15 % of all calls answered with the service's internal error", _errors, strikes=True),
    Profile("lost", "half of AWS's and 30 % of Kubernetes' answers lost after the act", _lost, strikes=True),
    Profile("stale", "reads that lag 20 seconds behind writes (Sieve: stale state)", _settings(stale_reads=20.0)),
    Profile("iam", "roles that others see after 60 seconds", _settings(iam_delay=60.0)),
    Profile("crash", "each outcome of each look lost once between act and record (Sieve: intermediate state)", discard=_lose_each_once),
    Profile("gremlin", "things change and change back between looks (Sieve: unobserved state)", between=lambda g: Gremlin(g).strike),
    Profile("away", "the Kubernetes API hangs up on everybody for 90 seconds", _away, strikes=True),
    Profile("tokens", "EKS tokens that expire after 20 seconds instead of 15 minutes", _short_tokens, between=_fresh_signatures),
    Profile(
        "credentials",
        "AWS credentials that expire in the middle of each workflow",
        between=_once_in_the_middle(_expire),
        reasons=frozenset({"aws.credentials_rejected"}),
        mend=lambda ground: ground.sandbox.clear(),
    ),
    Profile(
        "clock",
        "our clock is fifteen minutes behind from the middle of each workflow on",
        between=_once_in_the_middle(lambda ground: _settings(client_skew=900.0)(ground)),
        reasons=CLOCK,
        mend=_settings(client_skew=0.0),
    ),
    Profile("drift", "our clock is four minutes off, which AWS allows", _settings(client_skew=240.0)),
    Profile("restarts", "AWS itself killed and started again at every twelfth look", between=_restarts),
    Profile("storm", "throttling, errors, lost answers, stale reads, crashes at once", _all_at_once, discard=_lose_at_random, strikes=True),
)  # fmt: skip
