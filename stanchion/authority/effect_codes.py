"""Codes of effects outside: they stand in errors of steps, in the ledger and in `why`."""

from __future__ import annotations

from stanchion.errors import register_code

# code | status | title | meaning | usual fix
_TABLE = """
E-OP-01 | 404 | operation is not declared | A step asks for an operation that its workflow does not declare. | Name it in Workflow(..., operations=[...]).
E-OP-04 | 422 | payload or receipt does not fit | What is sent or received differs from the types that do= declares. | Send what it takes, return what it says.
E-OP-05 | 409 | key stands for another request | The same key was used with another payload. | Put what makes the effect unique into the key.
E-OP-06 | 503 | another step is at it | The same operation is being done for another step at this moment. | Nothing: it is tried again. Or give each effect a key of its own.
E-OP-08 | 422 | refused outside | The other side decided against it, and did nothing. | Change what is sent, and give it another key.
E-OP-09 | 503 | not done | It is certain that it was not done; it can be sent again. | Nothing: the step is tried again, with the same key.
E-OP-10 | 503 | outcome unknown | It was sent, and nobody knows whether it was done. | Nothing: it is asked after. After a day, or without a way to ask, a person has to tell.
E-OP-12 | 409 | undone | The operation was done and undone; its key is spent. | Give what is to be done anew another key.
E-OP-13 | 409 | operation is not in doubt | Only what became of an operation whose outcome is unknown can be told by a person. | Look at it: stanchion op show.
E-OP-14 | 500 | nothing to undo | A step that undoes names no operation that is there. | Report it.
E-OP-15 | 409 | can't be undone | The operation is not confirmed, or nobody declared how it is undone. | Look at it: stanchion op show.
E-APR-01 | 409 | approval is decided | It was granted, rejected, used, revoked, or its time is over. | Look at it: stanchion approval show.
E-APR-02 | 409 | approval has expired | Nobody decided in time. | Reopen the step, so that it asks again.
E-APR-03 | 403 | not one's decision | Others were asked, the vote was passed on, or one asked for it oneself. | Let those decide who were asked.
E-APR-04 | 409 | something else was shown | The hash that came with the vote is not that of what the approval covers. | Look at it again, and decide on what is shown now.
E-APR-05 | 409 | vote is cast | Everybody says yes or no once, and passes the vote on once; and there is a limit to what is said. | Revoke the approval, if it was a mistake.
E-APR-06 | 409 | vote can't be passed on | They may not decide it, or have said something already. | Name another approver.
E-APR-07 | 409 | version is not the latest | People are asked about the latest version of an artifact of the task. | Ask about the newer one.
E-APR-08 | 422 | not approved | An operation goes out under an approval that covers it: its kind, key, payload and version, in time, once. | Ask again.
E-APR-09 | 422 | task was rejected | Somebody said no to what it asked, or nobody answered in time, and its workflow ends with that. | Change what is asked for, and retry the task: it asks again.
E-APR-10 | 409 | payload can't be changed so | An edit changes the payload and keeps its shape, and leaves somebody who may approve it. | Look at the payload and those asked: stanchion approval show.
E-BUD-01 | 422 | budget does not cover it | What an operation costs is more than what is left of its task's budget. It was not sent. | Retry the task with a larger one: stanchion task retry --budget usd=10.
E-BUD-02 | 409 | budget is overspent | Steps reported more than the task may spend: it ends, as at its deadline. | Retry the task with a larger one: stanchion task retry --budget usd=10.
"""  # noqa: E501 - one code, one line

EFFECT_CODES = tuple(
    register_code(code, title, status=int(status), meaning=meaning, fix=fix)
    for code, status, title, meaning, fix in (line.split(" | ", 4) for line in _TABLE.strip().splitlines())
)
