"""An independent judge over a history: reads the tables and the event log, and says what can't have happened.

    found = check(connection, tasks=[...], executions=executions(folder))
    assert not found, report(found)

It knows the rules from its own copy of them and shares no code with the engine (neither the state machines nor a
database function), so that an error in one of the two shows as a difference between them. All checks are linear in the
history.
"""

from .judge import CHECKS, check, report
from .verdicts import Finding

__all__ = ["CHECKS", "Finding", "check", "report"]
