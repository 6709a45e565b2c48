"""How a definition is refused: where its decorator stands, and the codes with their meaning.

Every check of this package raises `Rejected` through `refusal`, so that each message has its code, what, where, why and
fix. A definition is checked while the user's file is imported, or when the graph is frozen: never in the middle of a
run.
"""

from __future__ import annotations

import difflib
import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stanchion.contracts.amounts import Number, amounts_of
from stanchion.errors import Rejected, Unprocessable, register_code

__all__ = ["DEFINITION_CODES", "Site", "amounts", "calling_site", "closest", "refusal"]

_HERE = __name__.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Site:
    """A line of the user's code: file, line number (from 1) and its text; printed as `brief.py:9  @brief.step()`."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f"  {self.text}" if self.text else "")


def calling_site() -> Site:
    """The innermost line outside this package that led here."""
    frame = sys._getframe(1)
    # By module and not by file: the constructors that dataclasses write for themselves have no file.
    while frame.f_back is not None and frame.f_globals.get("__name__", "").rpartition(".")[0] == _HERE:
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    if text.endswith(("(", ",")):
        text += " …"
    return Site(_shown(file), line, text)


def _shown(file: str) -> str:
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # outside of it, or the working directory is gone
        return file


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def refusal(code: str, what: str, where: Site | str | None, *, why: str | None = None, fix: str) -> Rejected:
    """The error to raise for a definition that can't be."""
    return Rejected(code, what, where=None if where is None else str(where), why=why, fix=fix)


def amounts(value: object, option: str, where: Site) -> dict[str, Number]:
    """Amounts by unit that a definition names; raises Rejected E-BUD-03."""
    try:
        return amounts_of(value, option)
    except Unprocessable as error:
        raise refusal(error.code, f"{option}=: {error.what}", where, why=error.where, fix=error.fix or "") from None


# code | title | meaning | usual fix
_TABLE = """
E-WIRE-01 | argument does not fit the result | A step takes another type than its predecessor returns. | Make the two types the same.
E-WIRE-02 | arguments and predecessors differ | A step must take one argument for each step in after=, in order. | Add or remove arguments, or name the missing steps in after=.
E-WIRE-03 | not a step of this workflow | An option names something that is no step of this workflow. | Name a step that is defined in the same workflow.
E-WIRE-04 | predecessor in another branch | A step can't see into a fan-out that it is not part of. | Join the fan-out first.
E-WIRE-05 | nothing to fan out over | each=True needs exactly one predecessor, which returns a list. | Return list[...] from it.
E-WIRE-06 | may be None | A predecessor may be skipped, and then its argument is None. | Take `... | None`.
E-WIRE-07 | bad target of Go | A step in next= can't be started by Go from there. | See the message.
E-WIRE-08 | bad target of Again | A step in again= can't be run again from there. | Name the step itself or one before it in the same scope.
E-WIRE-09 | bad Spawn | The two steps in spawns= don't form a fan-out and its join. | See the message.
E-WIRE-10 | step is never started | Nothing starts this step. | Name it in next= or spawns=, or give it after=.
E-WIRE-11 | steps wait for each other | The steps form a circle. | Return Again to go back.
E-WIRE-12 | one input, two types | Two first steps take the same input with different types. | Use one type, or two names.
E-JOIN-01 | bad join rule | The rule of a barrier is unknown or can't be met. | Use "all", "first", All(), First() or AtLeast(n or share).
E-JOIN-02 | join must take Results | Children may be missing or failed, which a list can't show. | Take Results[...].
E-JOIN-03 | nothing to join | A join closes exactly one fan-out. | Give it exactly one predecessor inside a fan-out.
E-JOIN-04 | join and each at once | One step can't close a fan-out and open another. | Use two steps.
E-JOIN-05 | Results without a join | Only a join hands out Results. | Add join=, or take the value itself.
E-JOIN-06 | joins contradict each other | One join fails with the first failed child, another one over the same children waits for it to be reopened. | Use on_failed="hold" in both, or "collect" in the first.
E-STEP-11 | not a function | A step is a plain function, written with def or async def, that returns. | Write def or async def at the top of a module.
E-STEP-12 | bare decorator | Workflow.step needs its brackets. | Write @workflow.step().
E-STEP-13 | arguments can't be named | A step's arguments are handed over by name. | Replace *args, **kwargs and positional-only arguments by named ones.
E-STEP-14 | no context | The first parameter of a step is its context. | Write ctx: Ctx first.
E-STEP-15 | annotation missing | Types say how values cross between processes. | Annotate every argument and the result.
E-STEP-16 | annotation can't be read | A name in an annotation is not known where the step is defined. | Import or define the type before the step, at run time.
E-STEP-17 | type can't travel | Values of this type have no JSON form. | Use JSON types, dataclasses, pydantic models, TypedDict, enums, dates, UUID or Decimal.
E-STEP-18 | bad name | Names of workflows and steps are [a-z][a-z0-9_]{0,63}. | Rename it.
E-STEP-19 | name used twice | Each step of a workflow has a name of its own. | Rename one of the two.
E-STEP-40 | bad option | An option of a step has a value that is not allowed. | See the message.
E-STEP-41 | bad duration | A duration is a text such as "30s", a number of seconds or a timedelta. | Use "250ms", "30s", "2m", "4h" or "1d".
E-STEP-42 | definition is closed | The graph was read already; a run must not see it change. | Define all steps when the module is imported.
E-STEP-43 | too many steps | A workflow has more steps than the limit. | Use a fan-out, or split the workflow.
E-STEP-44 | outcome not declared | What a step may return and what its decorator says differ. | Name the targets in next=, again= or spawns=, and the outcome in the result type.
E-STEP-31 | argument does not fit | A value from an earlier step does not fit the argument's type any more. | Give changed types a new workflow version.
E-STEP-32 | result does not fit | A step returned something else than its annotation says. | Return what the annotation says.
E-STEP-33 | outcome not allowed | A step returned an outcome that its decorator does not declare. | Declare it in next=, again= or spawns=.
E-OP-02 | bad operation | The declaration of an operation has a value that is not allowed. | See the message.
E-OP-03 | operation without a check | When its outcome is unknown, nobody can be asked. | Give it check=, or say why there is none.
E-BUD-03 | no amount | A unit is a short name in small letters, an amount a finite number that is not negative, of at most 15 digits. | Like usd=0.4.
E-VER-02 | bad version | The version of a workflow is a whole number from 1. | Use version=1 and count up.
E-LOAD-01 | can't be imported | The module or file with the workflows could not be imported. | See `why`.
E-LOAD-02 | no workflow there | The target names nothing that is a workflow. | Name module:attribute of a Workflow.
"""  # noqa: E501 - one code, one line: a table that is wrapped can't be scanned

DEFINITION_CODES: Final[tuple[str, ...]] = tuple(
    register_code(code, title, status=422, meaning=meaning, fix=fix)
    for code, title, meaning, fix in (line.split(" | ", 3) for line in _TABLE.strip().splitlines())
)
