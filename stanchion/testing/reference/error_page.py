"""errors.md: every code, what it means, and the way out."""

from __future__ import annotations

from itertools import groupby

from stanchion.errors import CODES

from .everything import import_everything
from .markdown import code, page, section, table

_INTRO = """
Every error that people see has a code, says what is wrong and where, why, and how to get out of it. The code is the
same in the API (RFC 9457 problem details), on the command line, in `why` and in the logs, and it never changes its
meaning.
"""

_FAMILIES = {
    "API": "The clients",
    "AUTH": "Who may do what",
    "BUG": "Bugs",
    "CLI": "The command line",
    "CONF": "Settings",
    "CONFLICT": "Conflicts",
    "DATA": "Values",
    "DB": "The database",
    "FIND": "What is not there",
    "IDEM": "Idempotency",
    "JOIN": "Joins",
    "KEY": "Keys",
    "LEASE": "Leases",
    "LOAD": "Loading workflows",
    "MSG": "Messages",
    "NET": "Broker and network",
    "OBJ": "Objects",
    "SIZE": "Sizes",
    "STATE": "State machines",
    "STEP": "Steps",
    "TASK": "Tasks",
    "VER": "Versions",
    "WAIT": "Waiting",
    "WIRE": "Wiring of a workflow",
}

_TREE = (
    ("`Rejected`", "shows it; the same call gives the same answer", "400"),
    ("`Unauthenticated`, `NotAllowed`, `NotFound`", "the same: they are `Rejected`", "401, 403, 404"),
    ("`Conflict`, `TooLarge`, `Unprocessable`", "the same: they are `Rejected`", "409, 413, 422"),
    ("`Unavailable`", "backs off and tries again", "503"),
    ("`Superseded`", "stops quietly: another attempt holds the fence", "409"),
    ("`InvariantViolated`", "lets the process end: it is a bug", "500"),
    ("`Unstorable`", "looks for the one value to blame and goes on without it; else as `InvariantViolated`", "500"),
    ("`LeaseLost`", "nothing: a `BaseException` in user code, so that no `except Exception` eats it", ""),
)


def errors_page() -> str:
    """The page of all codes."""
    import_everything()
    blocks = [section("Families", table(("family", "what the catcher does", "status"), _TREE))]
    for part, group in groupby(sorted(CODES), key=lambda name: name.split("-")[1]):
        rows = ((_anchored(name), CODES[name].status, CODES[name].meaning, CODES[name].fix) for name in group)
        title = _FAMILIES.get(part, part.capitalize())
        blocks.append(section(title, table(("code", "status", "meaning", "way out"), rows)))
    return page("Errors", _INTRO, *blocks)


def _anchored(name: str) -> str:
    return f'<a id="{name.lower()}"></a>{code(name)}<br>{CODES[name].title}'
