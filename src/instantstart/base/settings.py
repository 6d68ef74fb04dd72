"""Every setting of the program, from the environment; ``docs/settings.md`` is generated from this table."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from instantstart.base import problems, sentences

PREFIX = "INSTANTSTART_"
_ADMIN_TOKEN = re.compile(r"ist_[A-Za-z0-9_-]{40,200}", re.ASCII)


class AgentSpending(StrEnum):
    """What an agent needs to begin what costs by the hour."""

    plan = "plan"
    person = "person"


class Settings(BaseModel):
    """One field, one variable: ``data_dir`` is ``INSTANTSTART_DATA_DIR``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = Field(default=Path.home() / ".instantstart", description="Folder of the database, the first-run token and the logs.")
    host: str = Field(
        default="127.0.0.1", description="Address to listen on. Put a reverse proxy with TLS before anything else than loopback."
    )
    port: int = Field(default=3099, ge=0, le=65535, description="Port of the console, the API and MCP.")
    allowed_hosts: str = Field(default="", description="Extra host names, comma separated, accepted in the Host and Origin headers.")
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^/?#\s@]+)?$",
        description="Address by which browsers reach the console, such as https://hyperpod.example.com; a sign-in at a provider "
        "returns there. Empty: the host that a request names.",
    )
    trusted_proxies: str = Field(
        default="",
        description="Addresses of reverse proxies, comma separated, whose X-Forwarded-For and X-Forwarded-Proto are believed; "
        "empty: nobody's.",
    )
    agent_spending: AgentSpending = Field(
        default=AgentSpending.plan,
        description="What an agent needs to begin what costs by the hour (clusters, nodes, file systems, servers): plan, the approval "
        "that its own plan gave; person, an administrator's yes in the console or command line as well. What destroys always takes both.",
    )
    session_hours: float = Field(
        default=12.0, gt=0, le=720, description="Hours until a session of the console or of a signed-in command line ends."
    )
    rate_limit_per_second: float = Field(
        default=50.0,
        ge=0,
        description="What each identity may ask a second in the long run (reading costs 1, changing 5), for each replica; an "
        "address may ask four times as much. 0: no limit.",
    )
    rate_limit_burst: int = Field(
        default=2000, ge=10, description="What an identity may ask at once after a quiet time, in the same measure."
    )
    max_connections: int = Field(
        default=1000,
        ge=0,
        description="Connections that a replica keeps open at once, streams among them; where more come, those that wait idly are closed, "
        "and with none of these new ones are answered 503 with Retry-After. 0: no limit.",
    )
    max_connections_per_address: int = Field(
        default=250, ge=0, description="The same for each address, but for trusted_proxies, which stand for many. 0: no limit."
    )
    max_open_per_identity: int = Field(
        default=100,
        ge=0,
        description="Requests and streams that an identity may have open at once in a replica; more are answered 429. 0: no limit.",
    )
    admin_token: SecretStr | None = Field(
        default=None,
        description="Token of a first administrator, ist_ and at least 40 letters, digits, - and _; better in a file. It opens from the "
        "start on, in every replica; another value takes the place of the one before. Empty: one is made, in the data folder.",
    )
    admin_token_file: Path | None = Field(default=None, description="File with that token, such as a mounted secret.")
    audit_retention_days: int = Field(default=365, ge=0, description="Days that lines of the audit log are kept; 0: for ever.")
    oidc_issuer: str = Field(
        default="",
        pattern=r"^(https://[^?#\s]+|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/[^?#\s]*)?)?$",
        description="Issuer of the OpenID Connect provider where people sign in, exactly as its discovery document says it; empty: none.",
    )
    oidc_client_id: str = Field(default="", description="Our client id at that provider.")
    oidc_client_secret: SecretStr | None = Field(default=None, description="Our client secret; better in a file. A public client has none.")
    oidc_client_secret_file: Path | None = Field(default=None, description="File with the client secret.")
    oidc_scopes: str = Field(default="openid profile email", description="Scopes to ask for; openid among them.")
    oidc_name: str = Field(default="single sign-on", max_length=40, description="What the button on the sign-in page calls the provider.")
    oidc_role_claim: str = Field(
        default="groups",
        description="Claim that says what a person is, a text or a list; dots lead into objects, such as realm_access.roles.",
    )
    oidc_roles: str = Field(
        default="",
        pattern=r"^([^;]+=(viewer|operator|admin)(;\s*[^;]+=(viewer|operator|admin))*)?$",
        description="Which value of the claim gives which role: value=role, separated by semicolons, such as "
        "hyperpod-admins=admin;ml=operator. The highest counts.",
    )
    oidc_default_role: Literal["", "viewer", "operator"] = Field(
        default="", description="Role of people whom no value gives one; empty: they are refused."
    )
    oidc_domains: str = Field(
        default="",
        description="Domains of verified e-mail addresses, comma separated, of whom may enter; empty: whom the provider lets in.",
    )
    database_url: str | None = Field(default=None, description="postgresql://... for several replicas; empty: SQLite in the data folder.")
    replica_id: str = Field(default="single", description="Stable name of this replica when a database URL is set.")
    region: str | None = Field(default=None, description="Default AWS region; empty: the ambient one.")
    clock_rate: float = Field(default=1.0, gt=0, description="Seconds of the world a real second; only the sandbox has more than 1.")
    permissions_boundary: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:iam::\d{12}:policy/.+$",
        description="ARN of the boundary that every role we make gets; empty: none.",
    )
    tags: str = Field(
        default="",
        pattern=r"^([^=,]{1,128}=[^=,]{0,256}(,[^=,]{1,128}=[^=,]{0,256})*)?$",
        description="More tags for everything we make, as name=value, comma separated, such as CostCenter=4711.",
    )
    bundles_dir: Path | None = Field(default=None, description="Folder of rendered manifest bundles; empty: the one that is shipped.")
    hub_url: str = Field(
        default="https://huggingface.co", pattern=r"^https?://\S+$", description="The model hub, or a mirror with the same API."
    )
    vllm_image: str = Field(
        default="vllm/vllm-openai:v0.26.0",
        pattern=r"^\S+$",
        description="Image of vLLM where a deployment names none. Pin a tag or a digest.",
    )
    sglang_image: str = Field(
        default="lmsysorg/sglang:v0.5.18",
        pattern=r"^\S+$",
        description="Image of SGLang and its router where none is named. Pin a tag or a digest.",
    )
    download_links: bool = Field(default=False, description="Let operators get links that give an object of a bucket to whoever has them.")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")
    log_format: Literal["json", "text"] = Field(default="json", description="json: an object a line; text: lines for a person.")
    otlp_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="OpenTelemetry collector for traces, such as http://collector:4318 (OTLP over HTTP); empty: no traces. Its headers and "
        "certificates are said in OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE.",
    )
    trace_ratio: float = Field(
        default=1.0, ge=0, le=1, description="Part of the traces that are kept; a caller that sends traceparent decides for its own."
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=300,
        description="Seconds between SIGTERM and the end of serving in which /readyz already answers 503, so that a balancer sends nobody "
        "here any more; for several replicas.",
    )
    workers: int = Field(default=16, ge=1, le=256, description="Operations that may tick at the same time.")
    drift_check_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds of the world between two background checks of features and identity chains; 0: only when somebody looks.",
    )
    pool_check_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Seconds of the world between two looks at model pools, which replace lost workers of businesses; 0: never.",
    )
    simulated: bool = Field(default=False, description="Say in the console that the world behind is a sandbox.")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises Invalid naming each wrong variable."""
    environ = os.environ if environ is None else environ
    names = {name: PREFIX + name.upper() for name in Settings.model_fields}
    given = {name: environ[variable] for name, variable in names.items() if environ.get(variable)}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise wrong(error, names) from error


def given_admin_token(chosen: Settings) -> str | None:
    """The first administrator's token that the settings give. Raises Invalid for one that cannot be read or is easily guessed."""
    try:
        told = chosen.admin_token_file.read_text(encoding="utf-8") if chosen.admin_token_file else _secret(chosen.admin_token)
    except (OSError, ValueError) as error:
        raise problems.Invalid(
            "settings.admin_token", f"INSTANTSTART_ADMIN_TOKEN_FILE: {chosen.admin_token_file} cannot be read."
        ) from error
    token = told.strip()
    if token and not _ADMIN_TOKEN.fullmatch(token):
        raise problems.Invalid(
            "settings.admin_token",
            "The administrator's token of the settings must be ist_ and at least 40 letters, digits, '-' and '_'.",
            hint="Make one: echo ist_$(openssl rand -hex 32)",
        )
    return token or None


def _secret(value: SecretStr | None) -> str:
    return value.get_secret_value() if value else ""


def wrong(error: ValidationError, names: Mapping[str, str]) -> problems.Invalid:
    """What is wrong with each setting, under the names that the person used."""
    told = []
    for each in error.errors():
        field = str(each["loc"][0])
        message = sentences.sentence({**each, "loc": (names[field],)})
        if each["type"] == "string_pattern_mismatch":
            message = f"{names[field]} has not the form that it needs. {Settings.model_fields[field].description}"
        told.append(problems.Violation("/" + names[field], message))
    return problems.Invalid("settings.invalid", f"Wrong settings: {' '.join(each.message for each in told)}", fields=told)
