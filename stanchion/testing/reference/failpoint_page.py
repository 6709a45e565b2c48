"""failpoints.md: the named places where a test may kill, freeze, hold or fail a process."""

from __future__ import annotations

from itertools import groupby

from stanchion.db.engine import TRANSACTIONS
from stanchion.runtime.failpoints import FAILPOINTS

from .everything import import_everything
from .markdown import code, fence, flow, page, section, table

_INTRO = """
Failpoints exist in every build and cost one look at an empty table. They are armed by the environment and only in the
`dev` profile; a production service ignores the variables. Before it acts, a failpoint appends one line to `fired.log`
in `STANCHION_FAILPOINT_DIR`, with one write, so that the line survives the kill.
"""
_EXAMPLE = """
STANCHION_FAILPOINTS="lease.before_commit=kill;step.run[node=read,idx=7]=hold;relay.sent=2*stop"
STANCHION_FAILPOINT_DIR=/tmp/failpoints
"""
_SYNTAX = """
`name[condition,...]=action`, several separated by `;`. A condition compares the text of what the place knows of itself
(`node`, `idx` and `attempt` at a step's). `N*action` fires at the Nth matching hit, once; without it every matching hit
fires. A process refuses to start with the name of a failpoint that it does not have.
"""
_ACTIONS = {
    "kill": "SIGKILL to this process: no `finally`, no flush",
    "stop": "SIGSTOP to this process: frozen until somebody sends SIGCONT",
    "raise": "raises an error at this place",
    "sleep(MS)": "this thread waits",
    "hold": "leaves a file `<name>.<pid>.held` and waits for `<name>.<pid>.release`",
}
_PHASES = """
Every transaction that changes facts has three: `<transaction>.before_commit` (nothing is committed yet),
`<transaction>.mid_commit` (COMMIT was sent, its answer has not been read) and `<transaction>.after_commit` (it is
committed, nobody was told).
"""
_TITLES = {"relay": "Relay", "step": "Worker"}


def failpoints_page() -> str:
    """The page of all declared failpoints."""
    import_everything()
    own = sorted(name for name in FAILPOINTS if name.partition(".")[0] not in TRANSACTIONS)
    places = []
    for part, group in groupby(own, key=lambda name: name.partition(".")[0]):
        rows = ((code(name), FAILPOINTS[name]) for name in group)
        places.append(section(_TITLES.get(part, part.capitalize()), table(("failpoint", "where"), rows), level=3))
    transactions = table(("transaction", "what it does"), ((code(n), meaning) for n, meaning in TRANSACTIONS.items()))
    return page(
        "Failpoints",
        _INTRO,
        fence(_EXAMPLE.strip(), "sh"),
        flow(_SYNTAX),
        section("Actions", table(("action", "what happens"), ((code(a), text) for a, text in _ACTIONS.items()))),
        section("Places", section("Transactions", flow(_PHASES), transactions, level=3), *places),
    )
