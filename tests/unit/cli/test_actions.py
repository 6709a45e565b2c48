"""The table of actions against what it names: routes of the API, their bodies and rights, and commands that parse."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from stanchion.cli.command import Group, Verb
from stanchion.cli.main import root
from stanchion.contracts.actions import ACTIONS, POSITIONAL, Action, command_of
from stanchion.testing.reference.api_page import document

NAMES = sorted(ACTIONS)
TARGET = "tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    """The OpenAPI document of the task service."""
    return document()


def route_of(api: dict[str, Any], action: Action) -> dict[str, Any]:
    """The operation that an action's path and method name."""
    wanted = action.path.replace("{id}", "{}")
    for path, methods in api["paths"].items():
        if "/".join("{}" if part.startswith("{") else part for part in path.split("/")) == wanted:
            found: dict[str, Any] = methods[action.method.lower()]
            return found
    raise AssertionError(f"{action.name}: there is no {action.method} {action.path}")


@pytest.mark.parametrize("name", NAMES)
def test_the_api_has_it(api: dict[str, Any], name: str) -> None:
    """Under that path, for that right, with a body that has each of its fields."""
    action = ACTIONS[name]
    route = route_of(api, action)
    assert route["x-right"] == (action.right or "none")
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    known = api["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], body).get("properties", {})
    assert {field.name for field in action.fields} <= known.keys()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [{}, None], ids=["nothing", "everything"])
def test_its_command_parses(name: str, given: dict[str, Any] | None) -> None:
    """With what is needed, and with everything that can be said."""
    action = ACTIONS[name]
    samples = {"json": '{"a": 1}', "yes": True, "number": "1"}
    words = {
        field.name: field.choices[0] if field.choices else samples.get(field.kind, "abc") for field in action.fields
    }
    told = words if given is None else {name: words[name] for name in needed_choices(action)}
    line = shlex.split(command_of(action, TARGET, told))
    verb, rest = verb_of(line[1:])
    context = verb.make_context(line[-1], list(rest))
    if "{id}" in action.command:
        assert TARGET in str(context.params.values())


def needed_choices(action: Action) -> list[str]:
    """What a command can't leave open: the others show as dots."""
    return [field.name for field in action.fields if field.choices and field.required]


def verb_of(words: list[str]) -> tuple[Verb, list[str]]:
    """The command that a line calls, and what is said to it."""
    node: click.Command = root()
    while isinstance(node, Group):
        found = node.get_command(click.Context(node), words[0])
        assert found is not None, words
        node, words = found, words[1:]
    assert isinstance(node, Verb)
    return node, words


def test_values_are_quoted() -> None:
    """A comment or a name can't become another command."""
    line = command_of(ACTIONS["approval.delegate"], TARGET, {"to": "bob; rm -rf /", "comment": "$(id) {to}"})
    assert shlex.split(line) == [
        "stanchion",
        "approval",
        "delegate",
        TARGET,
        "bob; rm -rf /",
        "--comment",
        "$(id) {to}",
    ]
    assert command_of(ACTIONS["approval.delegate"], TARGET, {}).endswith(f'{TARGET} "..."')


def test_what_stands_in_the_command_is_a_field_of_it() -> None:
    """And nothing else is in braces."""
    for action in ACTIONS.values():
        braces = {word for word in action.command.split() if word.startswith("{")}
        named = {f"{{{field.name}}}" for field in action.fields if field.flag == POSITIONAL}
        assert braces - {"{id}"} == named
        assert ("{id}" in braces) == bool(action.target or action.id_field or "{id}" in action.path)
