"""Renders each machine as SQL (the head of its trigger body) and as documentation."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine


def _quoted(states: tuple[StrEnum, ...]) -> str:
    return ", ".join(f"'{s.value}'" for s in states)


def check_states(machine: Machine) -> str:
    """SQL expression of the CHECK that allows only declared states."""
    return f"state IN ({_quoted(tuple(machine.states))})"


def transition_guard(machine: Machine) -> str:
    """PL/pgSQL statements that refuse an illegal birth (ST001), transition (ST001) and a changed identity (ST002)."""
    arms = [
        f"      WHEN '{s.value}' THEN NEW.state IN ({_quoted(machine.targets_of(s))})"
        for s in machine.states
        if machine.targets_of(s)
    ]
    identity = " OR ".join(f"NEW.{c} IS DISTINCT FROM OLD.{c}" for c in machine.immutable)
    return "\n".join(
        [
            "  IF TG_OP = 'INSERT' THEN",
            f"    IF NEW.state NOT IN ({_quoted(machine.births)}) THEN",
            f"      RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('a {machine.table} is never born %s', NEW.state);",
            "    END IF;",
            "    RETURN NEW;",
            "  END IF;",
            "  IF NEW.state <> OLD.state AND NOT (CASE OLD.state",
            *arms,
            "      ELSE false END) THEN",
            f"    RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = format('illegal transition of a {machine.table}: %s -> %s', OLD.state, NEW.state);",
            "  END IF;",
            f"  IF {identity} THEN",
            f"    RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'the identity of a {machine.table} never changes';",
            "  END IF;",
        ]
    )


def markdown(machine: Machine) -> str:
    """The machine as a Mermaid state diagram and a table, for docs/reference/states.md."""
    lines = [f"## {machine.table}", "", "```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {s.value}" for s in machine.births]
    lines += [f"    {s.value} --> {t.target.value}: {t.name}" for t in machine.transitions for s in t.sources]
    lines += [f"    {s.value} --> [*]" for s in machine.terminal]
    lines += [
        "```",
        "",
        "| transition | from | to | who | fenced | event | when |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for t in machine.transitions:
        sources = ", ".join(s.value for s in t.sources)
        fenced = "yes" if t.fenced else ""
        lines.append(
            f"| {t.name} | {sources} | {t.target.value} | {', '.join(t.actors)} | {fenced} | {t.event} | {t.cause} |"
        )
    if machine.shapes:
        lines += ["", "Held by the database in every state:", ""]
        lines += [f"- `{name}`: `{expression}`" for name, expression in machine.shapes.items()]
    return "\n".join(lines) + "\n"
