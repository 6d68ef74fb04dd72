"""Stack parameters: defaults, types, constraints, and the values AWS is asked about (a subnet that must exist, an SSM parameter)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services.cloudformation.template import Template
from instantstart_sandbox.services.cloudformation.wording import invalid

#: ``ask(service)``: a boto3 client of the stack's region
Ask = Callable[[str], Any]
MAX_VALUE_BYTES = 4096

#: AWS-specific type -> (service, operation, argument name, all values go in one call)
_LOOKUPS = {
    "AWS::EC2::VPC::Id": ("ec2", "describe_vpcs", "VpcIds"),
    "AWS::EC2::Subnet::Id": ("ec2", "describe_subnets", "SubnetIds"),
    "AWS::EC2::SecurityGroup::Id": ("ec2", "describe_security_groups", "GroupIds"),
    "AWS::EC2::AvailabilityZone::Name": ("ec2", "describe_availability_zones", "ZoneNames"),
    "AWS::EC2::Instance::Id": ("ec2", "describe_instances", "InstanceIds"),
    "AWS::EC2::Image::Id": ("ec2", "describe_images", "ImageIds"),
    "AWS::EC2::KeyPair::KeyName": ("ec2", "describe_key_pairs", "KeyNames"),
}
_SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
_LIST = re.compile(r"List<(.+)>")
_PLAIN = ("String", "Number", "CommaDelimitedList", "AWS::SSM::Parameter::Name")


def check_declarations(template: Template) -> None:
    """Refuse a parameter of an unknown type, or whose default breaks its own constraints."""
    for name, declared in (template.get("Parameters") or {}).items():
        if not isinstance(declared, dict) or not isinstance(declared.get("Type"), str):
            raise invalid(f"Template format error: Every Parameters object must contain a Type member. (parameter {name})")
        if not _known(declared["Type"]):
            raise invalid(f"Template format error: Unrecognized parameter type: {declared['Type']}")
        if "Default" in declared:
            _check_constraints(name, declared, _text(declared["Default"]))


def _known(kind: str) -> bool:
    inner = _SSM_VALUE.fullmatch(kind)
    kind = inner[1] if inner else kind
    listed = _LIST.fullmatch(kind)
    item = listed[1] if listed else kind
    return item in _LOOKUPS or item in (("Number", "String") if listed else _PLAIN)


def is_list(kind: str) -> bool:
    """Whether a Ref to a parameter of this type gives a list."""
    inner = _SSM_VALUE.fullmatch(kind)
    kind = inner[1] if inner else kind
    return kind == "CommaDelimitedList" or _LIST.fullmatch(kind) is not None


def merge(template: Template, given: list[dict[str, Any]], previous: Mapping[str, str]) -> dict[str, str]:
    """The text value of every declared parameter, from the request, the stack before, and the defaults; checked."""
    declared = template.get("Parameters") or {}
    values: dict[str, str] = {}
    unknown = sorted({p["ParameterKey"] for p in given} - set(declared))
    if unknown:
        raise invalid(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    for parameter in given:
        key = parameter["ParameterKey"]
        if parameter.get("UsePreviousValue"):
            if key not in previous:
                raise invalid(
                    f"Invalid input for parameter key {key}. "
                    "Cannot specify usePreviousValue as true for a parameter key not in the previous template"
                )
            values[key] = previous[key]
        else:
            values[key] = parameter.get("ParameterValue") or ""
    for name, one in declared.items():
        if name not in values and "Default" in one:
            values[name] = _text(one["Default"])
    missing = [name for name in declared if name not in values]
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        _check_constraints(name, declared[name], value)
    return values


def resolve(template: Template, values: Mapping[str, str], ask: Ask) -> dict[str, str]:
    """The values that a Ref gives (still as text): SSM parameters looked up, AWS-specific ids checked for existence."""
    resolved: dict[str, str] = {}
    for name, value in values.items():
        kind = template["Parameters"][name]["Type"]
        if inner := _SSM_VALUE.fullmatch(kind):
            kind, value = inner[1], _from_ssm(name, value, ask)
        resolved[name] = value
        item = listed[1] if (listed := _LIST.fullmatch(kind)) else kind
        if item in _LOOKUPS:
            _check_exists(name, item, [v.strip() for v in value.split(",")] if listed else [value], ask)
    return resolved


def as_reference(kind: str, value: str) -> Any:
    """What a Ref to a parameter of this type and value gives: a text or a list of texts."""
    if not is_list(kind):
        return value
    return [part.strip() for part in value.split(",")] if value else []


def _from_ssm(name: str, value: str, ask: Ask) -> str:
    try:
        return str(ask("ssm").get_parameter(Name=value)["Parameter"]["Value"])
    except ClientError as error:
        raise invalid(f"Unable to fetch parameters [{value}] from parameter store for this account. (parameter {name})") from error


def _check_exists(name: str, kind: str, ids: list[str], ask: Ask) -> None:
    service, operation, argument = _LOOKUPS[kind]
    for one in ids:
        try:
            getattr(ask(service), operation)(**{argument: [one]})
        except ClientError as error:
            raise invalid(f"Parameter validation failed: parameter value {one} for parameter name {name} does not exist") from error


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_text(v) for v in value)
    return str(value)


def _check_constraints(name: str, declared: Mapping[str, Any], value: str) -> None:
    why = declared.get("ConstraintDescription")

    def refuse(rule: str) -> None:
        raise invalid(f"Parameter {name} failed to satisfy constraint: {why}" if why else f"Parameter '{name}' must {rule}")

    kind = declared["Type"]
    parts = [p.strip() for p in value.split(",")] if is_list(kind) and not kind.startswith("AWS::SSM") else [value]
    if len(value.encode()) > MAX_VALUE_BYTES:
        refuse(f"be at most {MAX_VALUE_BYTES} bytes long")
    for part in parts:
        _check_number(refuse, kind, declared, part)
        allowed = [_text(v) for v in declared.get("AllowedValues") or []]
        if allowed and part not in allowed:
            refuse("be one of AllowedValues")
        pattern = declared.get("AllowedPattern")
        if pattern and not re.fullmatch(str(pattern), part):
            refuse(f"match pattern {pattern}")
        if len(part) < int(declared.get("MinLength", 0)):
            refuse(f"contain at least {declared['MinLength']} characters")
        if len(part) > int(declared.get("MaxLength", MAX_VALUE_BYTES)):
            refuse(f"contain at most {declared['MaxLength']} characters")


def _check_number(refuse: Callable[[str], None], kind: str, declared: Mapping[str, Any], text: str) -> None:
    if kind not in ("Number", "List<Number>"):
        return
    try:
        number = float(text)
    except ValueError:
        refuse("be a number")
        return
    if "MinValue" in declared and number < float(declared["MinValue"]):
        refuse(f"be a number not less than {declared['MinValue']}")
    if "MaxValue" in declared and number > float(declared["MaxValue"]):
        refuse(f"be a number not greater than {declared['MaxValue']}")
