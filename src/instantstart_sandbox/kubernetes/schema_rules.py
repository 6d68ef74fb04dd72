"""What the schema of a CustomResourceDefinition must be: structural, of known types, its lists and its rules sound."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from instantstart_sandbox.kubernetes import expressions
from instantstart_sandbox.kubernetes.errors import ApiError, Cause, bad_request, bad_value, forbidden_field, required, unsupported
from instantstart_sandbox.kubernetes.schema import Node

Schema = dict[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LEVELS: Final = {"root": "at the root", "items": "for specified array items", "fields": "for specified object fields"}
#: how the fields of JSONSchemaProps are typed, as far as they are walked through here
_MAPS: Final = ("properties", "patternProperties", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_PLAIN: Final = ("type", "format", "pattern", "description", "x-kubernetes-list-type", "x-kubernetes-map-type")
_TYPED: Final = ((_MAPS, dict, "map[string]v1.JSONSchemaProps"), (_LISTS, list, "[]v1.JSONSchemaProps"), (_PLAIN, str, "string"))
_CHOICES: Final = (
    (("items",), (dict, list), "v1.JSONSchemaPropsOrArray"),
    (("additionalProperties",), (dict, bool), "v1.JSONSchemaPropsOrBool"),
    (("not",), dict, "v1.JSONSchemaProps"),
)
_ABSENT: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


def schema_causes(schema: Schema, path: str) -> list[Cause]:
    """Violations of a version's schema. Rules are looked at only where the rest is sound. Raises ApiError 400 for one that is ill-typed."""
    _check_decodes(schema)
    try:
        return _causes(schema, path)
    except (AttributeError, TypeError) as error:  # a field of another type than Go's, deeper than was looked at
        raise bad_request("json: cannot unmarshal a value of the schema into Go value of type v1.JSONSchemaProps") from error


def _causes(schema: Schema, path: str) -> list[Cause]:
    causes = sorted(_structural(schema, path, "root"), key=lambda c: f"{c.field}: {c.message}")
    if schema.get("nullable"):
        causes.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    sound = not causes
    causes += _openapi(schema, path)
    return causes if causes or not sound else _rules(schema, path, None)


def _check_decodes(schema: Any) -> None:
    """The server reads a schema into a Go struct: what does not fit is refused before it is judged. Raises ApiError 400."""
    if not isinstance(schema, dict):
        raise _undecodable("schema", schema, "v1.JSONSchemaProps")
    for keys, kind, told in (*_TYPED, *_CHOICES):
        for key in keys:
            if schema.get(key) is not None and not isinstance(schema[key], kind):
                raise _undecodable(key, schema[key], told)
    below = [child for key in _MAPS for child in (schema.get(key) or {}).values() if child is not None]
    below += [child for key in _LISTS for child in schema.get(key) or ()]
    below += [schema[key] for key in ("items", "additionalProperties", "not") if isinstance(schema.get(key), dict)]
    for child in below:
        _check_decodes(child)


def _undecodable(field: str, value: Any, kind: str) -> ApiError:
    told = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return bad_request(f"json: cannot unmarshal {told} into Go struct field JSONSchemaProps.{field} of type {kind}")


def _children(schema: Schema, path: str) -> list[tuple[Schema, str, str]]:
    """(child, its path, its level)"""
    found = [(child or {}, f"{path}.properties[{name}]", "fields") for name, child in (schema.get("properties") or {}).items()]
    if isinstance(schema.get("items"), dict):
        found.append((schema["items"], f"{path}.items", "items"))
    if isinstance(schema.get("additionalProperties"), dict):
        found.append((schema["additionalProperties"], f"{path}.additionalProperties", "fields"))
    return found


def _structural(schema: Schema, path: str, level: str) -> list[Cause]:
    kind, causes = schema.get("type") or "", []
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind == "array" and not schema.get("items"):
        causes.append(required(f"{path}.items", "must be specified"))
    if level == "root" and schema.get("additionalProperties") is not None:
        causes.append(forbidden_field(f"{path}.additionalProperties", "must not be used at the root"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(bad_value(f"{path}.type", json.dumps(kind), text) if kind else required(f"{path}.type", text))
    elif not kind and not free:
        causes.append(required(f"{path}.type", f"must not be empty {_LEVELS[level]}"))
    if level == "root" and kind and kind != "object":
        causes.append(bad_value(f"{path}.type", json.dumps(kind), "must be object at the root"))
    if "pattern" in schema and (fault := _pattern_fault(schema["pattern"])):
        causes.append(bad_value(f"{path}.pattern", json.dumps(schema["pattern"]), fault))
    for child, where, below in _children(schema, path):
        causes += _structural(child, where, below)
    return causes


def _pattern_fault(pattern: str) -> str:
    """The sentence about a pattern that is none; what only Python cannot read passes."""
    try:
        re.compile(pattern)
    except re.error as error:
        if "missing )" in error.msg:
            return f"must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `{pattern}`"
    return ""


def _openapi(schema: Schema, path: str) -> list[Cause]:
    kind, causes = schema.get("type") or "", []
    if kind and kind not in _TYPES:
        causes.append(unsupported(f"{path}.type", kind, _TYPES))
    causes += [forbidden_field(f"{path}.{name}", f"{name} is not supported") for name in _ABSENT if schema.get(name) is not None]
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden_field(f"{path}.uniqueItems", text))
    if schema.get("additionalProperties") is not None and schema.get("properties"):
        causes.append(forbidden_field(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        causes.append(bad_value(f"{path}.x-kubernetes-preserve-unknown-fields", "false", "must be true or undefined"))
    causes += _merging(schema, path, kind)
    for child, where, _ in _children(schema, path):
        causes += _openapi(child, where)
    return causes


def _merging(schema: Schema, path: str, kind: str) -> list[Cause]:
    """How lists and maps say that they are merged."""
    causes = []
    for word, wanted, known in (("list", "array", ("atomic", "set", "map")), ("map", "object", ("atomic", "granular"))):
        said, field = schema.get(f"x-kubernetes-{word}-type"), f"{path}.x-kubernetes-{word}-type"
        if said is None:
            continue
        if kind != wanted:
            text = f"must be {wanted} if x-kubernetes-{word}-type is specified"
            causes.append(bad_value(f"{path}.type", json.dumps(kind), text) if kind else required(f"{path}.type", text))
        if said not in known:
            causes.append(unsupported(field, str(said), known))
    keys, said = schema.get("x-kubernetes-list-map-keys") or [], schema.get("x-kubernetes-list-type")
    field = f"{path}.x-kubernetes-list-map-keys"
    if keys and said != "map":
        text, where = "must be map if x-kubernetes-list-map-keys is non-empty", f"{path}.x-kubernetes-list-type"
        causes.append(required(where, text) if said is None else bad_value(where, json.dumps(said), text))
    if said == "map":
        causes += _keyed(schema, path, field, keys)
    return causes


def _keyed(schema: Schema, path: str, field: str, keys: list[str]) -> list[Cause]:
    items, causes = schema.get("items"), []
    if not keys:
        causes.append(required(field, "must not be empty if x-kubernetes-list-type is map"))
    if not items:
        return [*causes, required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")]
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*causes, bad_value(f"{path}.items.type", json.dumps(items.get("type") or ""), text)]
    shown = json.dumps(keys, separators=(",", ":"))
    for number, key in enumerate(keys):
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            causes.append(bad_value(field, shown, "entries must all be names of item properties"))
        elif declared.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            causes.append(bad_value(f"{path}.items.properties[{key}].type", '"object"', text))
        elif "default" not in declared and key not in (items.get("required") or ()):
            causes.append(required(f"{path}.items.properties[{key}].default", f"this property is in x-kubernetes-list-map-keys, {_EITHER}"))
        if key in keys[:number]:
            causes.append(bad_value(field, shown, "must not contain duplicate entries"))
    return causes


_EITHER: Final = "so it must have a default or be a required property"

# ---------------------------------------------------------------------- rules


def _rules(schema: Schema, path: str, loose: str | None) -> list[Cause]:
    """Faults of ``x-kubernetes-validations`` here and below; ``loose`` is the place above that cannot be compared with its old value."""
    causes = []
    node = Node(schema)
    for number, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{number}]"
        faults = _rule_shape(rule, where, schema)
        causes += faults or _rule_sense(rule, where, node, loose)
    atomic = schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"
    atomic = atomic or schema.get("x-kubernetes-map-type") == "atomic"
    for child, where, _ in _children(schema, path):
        causes += _rules(child, where, path if atomic else loose)
    return causes


def _rule_shape(rule: Schema, where: str, schema: Schema) -> list[Cause]:
    text, message = str(rule.get("rule") or "").strip(), str(rule.get("message") or "")
    causes = []
    if not text:
        causes.append(required(f"{where}.rule", "rule is not specified"))
    elif message and not message.strip():
        causes.append(bad_value(f"{where}.message", json.dumps(message), "must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(bad_value(f"{where}.message", json.dumps(message), "must not contain line breaks"))
    elif "\n" in text and not message.strip():
        causes.append(required(f"{where}.message", "message must be specified if rule contains line breaks"))
    if rule.get("messageExpression") and not str(rule["messageExpression"]).strip():
        causes.append(required(f"{where}.messageExpression", "messageExpression must be non-empty if specified"))
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        causes.append(unsupported(f"{where}.reason", str(rule["reason"]), _REASONS))
    if rule.get("fieldPath") and not _leads_somewhere(rule["fieldPath"], schema):
        causes.append(bad_value(f"{where}.fieldPath", json.dumps(rule["fieldPath"]), "must be a valid path"))
    return causes


def steps(path: str) -> list[str]:
    """``.a['b c'].d`` in its steps."""
    found = re.findall(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]", path)
    whole = "".join(f".{name}" if name else f"['{quoted}']" for name, quoted in found)
    return [name or quoted.replace("\\'", "'") for name, quoted in found] if whole == path else []


def _leads_somewhere(path: str, schema: Schema) -> bool:
    at: Schema = schema
    for step in (found := steps(path)):
        inner = (at.get("properties") or {}).get(step)
        if inner is None:
            inner = at.get("additionalProperties")
        if not isinstance(inner, dict):
            return False
        at = inner
    return bool(found)


def _go(rule: Schema) -> str:
    """A rule as Go prints its struct."""
    shown = {
        "Rule": rule.get("rule", ""), "Message": rule.get("message", ""), "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"), "FieldPath": rule.get("fieldPath", ""), "OptionalOldSelf": rule.get("optionalOldSelf"),
    }  # fmt: skip
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _rule_sense(rule: Schema, where: str, node: Node, loose: str | None) -> list[Cause]:
    causes, text = [], str(rule["rule"])
    optional = bool(rule.get("optionalOldSelf"))
    fault = _fault(text, node, optional, ("BOOL", "cel expression must evaluate to a bool", "compilation failed: "))
    if fault:
        causes.append(bad_value(f"{where}.rule", _go(rule), fault))
    if rule.get("messageExpression"):
        wanted = ("STRING", "messageExpression must evaluate to a string", "messageExpression compilation failed: ")
        if fault := _fault(str(rule["messageExpression"]), node, optional, wanted):
            causes.append(bad_value(f"{where}.messageExpression", _go(rule), fault))
    if expressions.uses_old(text) and loose is not None:
        told = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
        causes.append(bad_value(f"{where}.rule", json.dumps(text), told))
    elif not expressions.uses_old(text) and rule.get("optionalOldSelf") is not None:
        shown = json.dumps(rule["optionalOldSelf"])
        causes.append(bad_value(f"{where}.optionalOldSelf", shown, "may not be set if oldSelf is not used in rule"))
    return causes


def _fault(text: str, node: Node, optional: bool, wanted: tuple[str, str, str]) -> str:
    kind, otherwise, before = wanted
    if undeclared := _undeclared(text, node):
        return before + undeclared
    try:
        program = expressions.checked(text, node, optional=optional)
    except expressions.UnevaluatedError:
        return ""
    except expressions.RuleError as fault:
        return before + str(fault)
    return otherwise if expressions.result_type(program) not in (kind, "DYN") else ""


def _undeclared(text: str, node: Node) -> str:
    """The compiler's sentence about a field of ``self`` that the schema does not have."""
    if not node.structure or node.preserve or node.embedded:
        return ""
    known = {expressions.escape(name) for name in node.fields} | {"apiVersion", "kind", "metadata"}
    bare = re.sub(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", lambda found: " " * len(found[0]), text)
    for found in re.finditer(r"\b(?:self|oldSelf)\.(\w+)(?!\w*\()", bare):
        if found[1] not in known:
            at = found.start(1) - 1
            return f"ERROR: <input>:1:{at + 1}: undefined field '{found[1]}'\n | {text}\n | {'.' * at}^"
    return ""


def unevaluated(schema: Schema, path: str = "") -> list[str]:
    """Rules that are stored and not enforced, since the runtime lacks a function that they use; one sentence for each."""
    told = []
    for rule in schema.get("x-kubernetes-validations") or ():
        try:
            expressions.compiled(str(rule.get("rule")), Node(schema), optional=bool(rule.get("optionalOldSelf")))
        except expressions.UnevaluatedError as lack:
            told.append(f"{path or 'the root'}: the sandbox does not evaluate the rule {rule['rule']!r} ({lack or 'two variables'})")
        except expressions.RuleError:
            continue
    for child, where, _ in _children(schema, path):
        told += unevaluated(child, where)
    return told
