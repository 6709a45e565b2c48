"""Codes of what can happen to a run while it runs: they stand in reasons, attempts and events, and in `why`."""

from __future__ import annotations

from stanchion.errors import register_code

register_code(
    "E-STEP-20",
    "not chosen",
    status=422,
    meaning="The step was skipped: another one was chosen, or all that it comes after was skipped.",
    fix="Nothing: that is how the workflow is written.",
)
register_code(
    "E-STEP-21",
    "step failed",
    status=422,
    meaning="A step outside any fan-out has no attempts left, so its run ends.",
    fix="Look at the error of its last attempt; then retry the task, which keeps what had succeeded.",
)
register_code(
    "E-STEP-22",
    "step timed out",
    status=422,
    meaning="An attempt ran longer than the step's timeout.",
    fix="Raise timeout=, make the step shorter, or use isolation='process' for code that can't be interrupted.",
)
register_code(
    "E-STEP-23",
    "step did not start in time",
    status=422,
    meaning="The step was not leased within start_within=, or not ended within total=.",
    fix="Add workers for its queue, or give it more time.",
)
register_code(
    "E-STEP-24",
    "fan-out can't be expanded",
    status=422,
    meaning="What should be the list behind a fan-out is none, or can't be read.",
    fix="Return a list from the step before it.",
)
register_code(
    "E-STEP-25",
    "asked to be tried again",
    status=422,
    meaning="The step returned Retry.",
    fix="Nothing, unless it keeps doing so: then look at the reason that it gives.",
)
register_code(
    "E-STEP-26",
    "too many rounds",
    status=422,
    meaning="A step asked for another round with Again more often than max_rounds= allows.",
    fix="Raise max_rounds=, or give the loop an end.",
)
register_code(
    "E-STEP-27",
    "step raised",
    status=422,
    meaning="The step's code raised an error of its own.",
    fix="Read the traceback of the attempt.",
)
register_code(
    "E-STEP-28",
    "process of a step ended",
    status=422,
    meaning="The process of an isolated step ended before the step did: killed, out of memory, or os._exit.",
    fix="Look at what the step does natively, and at its memory.",
)
register_code(
    "E-STEP-29",
    "outcome refused",
    status=422,
    meaning="The database refuses what an attempt handed in: a value that it can't keep.",
    fix="See `why`; look for a value that is no plain JSON, or far too large.",
)
register_code(
    "E-STEP-30",
    "event loop given up",
    status=422,
    meaning="The worker's event loop was ended time and again by the code of a step on it, and was replaced by another.",
    fix="Look for loop.stop() and for background tasks that raise SystemExit; or use isolation='process'.",
)
register_code(
    "E-STEP-35",
    "step is not in the code",
    status=422,
    meaning="A worker serves this version of the workflow and has no such step: its code is not what was registered.",
    fix="Start workers with the code that the version was registered with.",
)
register_code(
    "E-JOIN-20",
    "join failed",
    status=422,
    meaning="A barrier can't open any more: too many failed, or its deadline passed.",
    fix="Reopen failed children where on_failed='hold', else retry the task.",
)
register_code(
    "E-JOIN-23",
    "join decided without it",
    status=422,
    meaning="A branch was cancelled since its join had opened, or failed, before it started.",
    fix="rest='finish' lets such branches run.",
)
register_code(
    "E-JOIN-24",
    "left out of a join",
    status=422,
    meaning="A step before it in its branch failed, and no join that holds waits for that to be reopened.",
    fix="Nothing: the failed step has the error.",
)
register_code(
    "E-LEASE-03",
    "worker lost",
    status=422,
    meaning="The lease expired: the worker died, froze, or lost its way to the database.",
    fix="Look for the worker's log around that time; repeated losses point at the step's memory or native code.",
)
register_code(
    "E-VER-01",
    "version has another graph",
    status=409,
    meaning="This version of the workflow is registered with another graph, and runs keep the version they started with.",
    fix="Give the changed workflow a new version.",
)
register_code(
    "E-DATA-21",
    "stored value is missing",
    status=500,
    meaning="A row names a blob that is not there.",
    fix="Restore it from a backup; run stanchion db check.",
)
register_code(
    "E-DATA-22",
    "stored value is damaged",
    status=500,
    meaning="A blob does not have the content that it is named by.",
    fix="Restore it from a backup; run stanchion db check.",
)
register_code(
    "E-CONF-05",
    "worker without workflows",
    status=422,
    meaning="A worker was started without naming the workflows that it runs.",
    fix="stanchion worker run yourmodule:workflow",
)
register_code(
    "E-CONF-06",
    "unknown tenant",
    status=404,
    meaning="A setting names a tenant that does not exist.",
    fix="Create the tenant, or correct its name.",
)
