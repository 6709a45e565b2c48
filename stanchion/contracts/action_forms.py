"""What an action is made of: what it does, what it is done to, what is asked before, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from . import limits

BARRIER: Final = "bar"

POSITIONAL: Final = "{}"
"""As the flag of a field: its value stands in the command itself."""

Kind = Literal["text", "long", "number", "json", "choice", "yes", "hidden", "list"]
"""What a field takes; `list` is several words with blanks or commas between them, each behind an option of its own."""


@dataclass(frozen=True, slots=True)
class Field:
    """Something that is asked before an action: `name` in the request's body, `flag` on the command line."""

    name: str
    label: str
    kind: Kind = "text"
    required: bool = False
    flag: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    most: int = limits.REASON_CHARACTERS

    @property
    def option(self) -> str:
        """How it is called on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. `{id}` in path and command is the public id (or the name) of its target.

    A field that stands in braces in the command is said there, and not behind an option. Without a `right` everybody who
    has signed in may do it.
    """

    name: str
    title: str
    effect: str
    right: str
    path: str
    command: str
    target: str = ""
    method: str = "POST"
    fields: tuple[Field, ...] = ()
    id_field: str = ""
    """The field of the body that holds the target's id, where the path does not."""
    lands: str = ""
    """Where the page of what it made is, with fields of the answer; else one goes back to where one was."""
    shows: str = ""
    """The field of the answer that nobody can see again: a page shows it once, in place of going back."""
    tells: bool = False
    """Its answer is what was asked for: a page shows it, in place of going back."""
    final: bool = False
    """It can't be taken back: the page asks once more."""


REASON: Final = Field("reason", "Reason", "long", hint="It stands in the history and in the audit log.")
GIVEN_REASON: Final = Field("reason", "Reason", "long", True, hint="It stands in the history and in the audit log.")
PROOF: Final = Field("proof", "Proof", "text", True, hint="An id or a text of the outside system that shows it.")
