"""A description of an HTTP API (OpenAPI) as a list that pages can be made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A part of an address or query."""

    name: str
    where: str  # path or query
    kind: str  # integer, number, string, …, with its limits
    told: str


@dataclass(frozen=True)
class Operation:
    """What one address does with one method."""

    method: str
    path: str
    who: str  # may do it
    told: str
    parameters: tuple[Parameter, ...]
    takes: tuple[str, ...]  # media types of the body
    status: str  # where it is done
    gives: tuple[str, ...]  # media types of the answer


def operations(document: Mapping[str, Any]) -> tuple[Operation, ...]:
    """All operations in the order of the description."""
    return tuple(
        _operation(method.upper(), path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    )


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    status, answer = next(
        (code, one) for code, one in told["responses"].items() if code != "default" and code.startswith("2")
    )
    return Operation(
        method=method,
        path=path,
        who=f"For {', '.join(told.get('tags', ['everybody']))}.",
        told=" ".join(str(told.get("description") or told.get("summary", "")).split()),
        parameters=tuple(_parameter(one) for one in told.get("parameters", ())),
        takes=tuple(told.get("requestBody", {}).get("content", {})),
        status=status,
        gives=tuple(answer.get("content", {})),
    )


def _parameter(one: Mapping[str, Any]) -> Parameter:
    needed = "needed. " if one.get("required") and one["in"] != "path" else ""
    return Parameter(one["name"], one["in"], _kind(one["schema"]), needed + str(one.get("description", "")))


def _kind(schema: Mapping[str, Any]) -> str:
    """A type with its limits; ``null`` stands for what is not given, and is left out."""
    forms = [form for form in schema.get("anyOf", [schema]) if form.get("type") != "null"]
    return " or ".join(_one_kind(form) + _default(schema) for form in forms)


def _one_kind(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(map(str, form["enum"]))
    low, high = form.get("minimum"), form.get("maximum")
    limits = "" if low is None and high is None else f" from {low:g} to {high:g}" if None not in (low, high) else ""
    return f"{form.get('type', 'value')}{limits}"


def _default(schema: Mapping[str, Any]) -> str:
    return f", {schema['default']} unless given" if schema.get("default") is not None else ""
