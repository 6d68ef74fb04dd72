"""The arguments of ``python3 -m sglang_router.launch_router`` (0.1 to 0.3, and ``smg launch``: the union of their flags)."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from ..serving.flags import Flags

POLICIES = ("random", "round_robin", "cache_aware", "power_of_two", "bucket", "manual", "consistent_hashing", "prefix_hash")
_SWITCHES = """
 mini-lb pd-disaggregation dp-aware enable-igw service-discovery disable-retries disable-circuit-breaker enable-trace
 history-backend-enabled disable-health-check enable-wasm disable-tokenizer-autoload tokenizer-cache-enable-l0
 tokenizer-cache-enable-l1 log-json
"""
_TEXTS = """
 host api-key log-dir service-discovery-namespace bootstrap-port-annotation prometheus-host health-check-endpoint model-path
 tokenizer-path chat-template backend history-backend reasoning-parser tool-call-parser mcp-config-path otlp-traces-endpoint
 tls-cert-path tls-key-path client-cert-path client-key-path storage-context-headers assignment-mode model-id-from
 router-mesh-peer-urls mesh-server-name mesh-host oracle-wallet-path oracle-tns-alias oracle-connect-descriptor oracle-username
 oracle-password postgres-db-url redis-url control-plane-audit-enabled jwt-issuer jwt-audience jwt-jwks-uri
"""
_INTS = """
 port worker-startup-timeout-secs worker-startup-check-interval balance-abs-threshold eviction-interval-secs
 eviction-interval max-tree-size max-payload-size service-discovery-port prometheus-port request-timeout-secs retry-max-retries
 retry-initial-backoff-ms retry-max-backoff-ms health-failure-threshold health-success-threshold health-check-timeout-secs
 health-check-interval-secs cb-failure-threshold cb-success-threshold cb-timeout-duration-secs cb-window-duration-secs
 max-concurrent-requests queue-size queue-timeout-secs rate-limit-tokens-per-second tokenizer-cache-l0-max-entries
 tokenizer-cache-l1-max-memory max-idle-secs prefix-token-count mesh-port block-size
"""
_FLOATS = "cache-threshold balance-rel-threshold retry-backoff-multiplier retry-jitter-factor prefix-hash-load-factor"
_MANY = (
    "selector prefill-selector decode-selector request-id-headers cors-allowed-origins control-plane-api-keys ca-cert-paths router-selector"
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The arguments, or an exit with 2 and the reason in the log."""
    made = _Parser(prog="launch_router.py", usage="launch_router.py [options]")
    flags = Flags(made)
    flags.switches(_SWITCHES)
    flags.texts(_TEXTS)
    flags.numbers(_INTS)
    flags.numbers(_FLOATS, float)
    flags.many(_MANY)
    made.add_argument("--worker-urls", nargs="*", default=[])
    made.add_argument("--policy", choices=POLICIES, default="cache_aware")
    made.add_argument("--prefill-policy", choices=POLICIES)
    made.add_argument("--decode-policy", choices=POLICIES)
    made.add_argument("--prefill", nargs="+", action="append")
    made.add_argument("--decode", nargs=1, action="append")
    made.add_argument("--log-level", choices=["debug", "info", "warning", "warn", "error", "critical"], default="info")
    found = made.parse_args(arguments)
    faults = [
        f"argument --cache-threshold: must be between 0.0 and 1.0, got {found.cache_threshold}"
        if found.cache_threshold is not None and not 0 <= found.cache_threshold <= 1
        else "",
        f"argument --balance-rel-threshold: must be >= 1.0, got {found.balance_rel_threshold}"
        if found.balance_rel_threshold is not None and found.balance_rel_threshold < 1
        else "",
        "argument --selector: needs key=value" if any("=" not in s for s in found.selector or []) else "",
        "service discovery needs --selector" if found.service_discovery and not (found.selector or found.prefill_selector) else "",
    ]
    for fault in filter(None, faults):
        # the real router's configuration check ends with a traceback and 1
        sys.stderr.write(f"ValueError: Configuration error: {fault}\n")
        raise SystemExit(1)
    return found


def selector(words: list[str] | None) -> dict[str, str]:
    """Labels of ``key=value`` words."""
    return dict(word.partition("=")[::2] for word in words or [])
