"""A route's description as a tool's: where each argument goes, and one flat, lean input schema.

Lean: no ``$ref``, no ``title``, no ``anyOf [X, null]``, no ``default: null``, no patterns, no lengths. A model reads every byte
on every turn; the door refuses what does not fit in plain words, and the descriptions carry the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.faces.mcp.tool import Tool

Json = dict[str, Any]
#: never arguments: the server of this face sets them
NEVER_SHOWN = frozenset({"Idempotency-Key"})
_DROPPED = frozenset(
    {
        "title", "examples", "additionalProperties", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems",
        "patternProperties", "propertyNames", "maxProperties", "discriminator",
    }
)  # fmt: skip
_METHODS = ("get", "put", "post", "patch", "delete")


@dataclass(frozen=True)
class Route:
    """One operation of the OpenAPI: how to call it, and which arguments go into path and query; the rest is the body."""

    method: str
    path: str
    path_names: frozenset[str]
    query_names: frozenset[str]
    has_body: bool
    schema: Json
    #: every argument that may be given, those that a model is not shown included
    accepts: frozenset[str] = frozenset()

    @property
    def takes_selected(self) -> bool:
        """Whether a missing ``cluster`` may be filled in from the caller's selection."""
        return "cluster" in self.path_names and "cluster" not in self.schema.get("required", ())


def routes(openapi: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Json]]:
    """(operationId, method, path, description) of every route."""
    for path, described in openapi["paths"].items():
        for method in _METHODS:
            if method in described:
                yield described[method]["operationId"], method.upper(), path, described[method]


def bind(openapi: Mapping[str, Any], tools: tuple[Tool, ...]) -> dict[str, Route]:
    """The route of every tool that the app has, by the tool's name."""
    wanted = {tool.name: tool for tool in tools}
    return {
        name: _route(openapi, method, path, operation, wanted[name]) for name, method, path, operation in routes(openapi) if name in wanted
    }


def _route(openapi: Mapping[str, Any], method: str, path: str, operation: Json, tool: Tool) -> Route:
    properties: Json = {}
    required: list[str] = []
    places: dict[str, set[str]] = {"path": set(), "query": set(), "header": set()}
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        places[parameter["in"]].add(name)
        if name in NEVER_SHOWN or name in tool.hides or parameter["in"] == "header":
            continue
        schema = lean({**parameter["schema"], **({"description": parameter["description"]} if "description" in parameter else {})}, openapi)
        selected = name == "cluster" and parameter["in"] == "path" and not tool.names_cluster
        properties[name] = {"type": "string", "description": "Its tag; left out: the selected one."} if selected else schema
        if parameter.get("required") and not selected:
            required.append(name)
    body = operation.get("requestBody")
    accepts = places["path"] | places["query"]
    if body:
        asked = lean(body["content"]["application/json"]["schema"], openapi)
        properties.update({name: _flat(schema) for name, schema in asked.get("properties", {}).items() if name not in tool.hides})
        required.extend(asked.get("required", ()))
        accepts |= set(asked.get("properties", ()))
    schema = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    return Route(method, path, frozenset(places["path"]), frozenset(places["query"]), bool(body), schema, frozenset(accepts))


def _flat(schema: Json) -> Json:
    """An object's own fields told in words: a model fills in a plain object better than it reads a nested schema."""
    if any("properties" in each for each in schema.get("oneOf", ())):
        forms = "; ".join(_fields(each) for each in schema["oneOf"])
        return {"type": "object", "description": f"{schema.get('description', '')} One of these: {forms}.".strip()}
    if "properties" not in schema:
        return schema
    return {"type": "object", "description": f"{schema.get('description', '')} Fields: {_fields(schema)}.".strip()}


def _fields(schema: Json) -> str:
    return ", ".join(f"{name} ({_kind(inner)})" for name, inner in schema["properties"].items())


def _kind(schema: Json) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    bounds = [str(schema[key]) for key in ("minimum", "maximum") if key in schema]
    return f"{schema.get('type', 'any')}{' ' + ' to '.join(bounds) if bounds else ''}"


def lean(schema: Mapping[str, Any], openapi: Mapping[str, Any]) -> Json:
    """``schema`` with references put in place and everything dropped that tells a model nothing."""
    if "$ref" in schema:
        inner: Mapping[str, Any] = openapi
        for step in schema["$ref"].removeprefix("#/").split("/"):
            inner = inner[step]
        said = {key: value for key, value in inner.items() if key != "description" or "enum" not in inner}  # an enum's is for programmers
        return lean({**said, **{key: value for key, value in schema.items() if key != "$ref"}}, openapi)
    folded = _fold(schema)
    if folded is not schema:
        return lean(folded, openapi)
    return {key: _value(key, value, openapi) for key, value in schema.items() if key not in _DROPPED and not _tells_nothing(key, value)}


def _tells_nothing(key: str, value: Any) -> bool:
    return key == "default" and value in (None, [], "", False)


def _value(key: str, value: Any, openapi: Mapping[str, Any]) -> Any:
    if key == "properties":
        return {name: lean(inner, openapi) for name, inner in value.items()}
    if key == "items":
        return lean(value, openapi)
    if key in ("anyOf", "oneOf", "allOf"):
        return [lean(inner, openapi) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fold(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """``anyOf [X, null]`` and a choice of one are just X."""
    for key in ("anyOf", "allOf", "oneOf"):
        if key in schema:
            real = [each for each in schema[key] if each.get("type") != "null"]
            if len(real) == 1:
                return {**real[0], **{name: value for name, value in schema.items() if name != key}}
    return schema
