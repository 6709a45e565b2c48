"""The reference is what the code says, and the code says all of it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from docs_kit import CHECKOUT, sources

from stanchion.contracts.commands import REPLIES
from stanchion.testing.reference import message_page

REFERENCE = CHECKOUT / "docs" / "reference"


def read(page: str) -> str:
    return (REFERENCE / page).read_text(encoding="utf-8")


def test_pages_are_up_to_date() -> None:
    """What is rendered now is what is committed; `make generate` mends it."""
    # In a process of its own: tests in this one register codes and failpoints of their own.
    done = subprocess.run(
        [sys.executable, "-m", "stanchion.testing.reference", "--check"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout[-4000:]}"


def test_every_code_has_a_meaning() -> None:
    """A code that somebody can meet stands in the reference of errors."""
    page = read("errors.md")
    used: dict[str, str] = {}
    for path in sources(".py", ".sql"):
        for code in re.findall(r"\bE-[A-Z]+-[0-9]{2}\b", path.read_text(encoding="utf-8")):
            used.setdefault(code, str(path.relative_to(CHECKOUT)))
    missing = {code: where for code, where in used.items() if f"`{code}`" not in page and code != "E-NAME-01"}
    assert not missing, "register them with stanchion.errors.register_code"


def test_every_variable_is_explained() -> None:
    """A variable that some part reads stands in the reference of settings, with a sentence."""
    page = read("settings.md")
    used: dict[str, str] = {}
    for path in sources(".py"):
        for name in re.findall(r"\bSTANCHION_[A-Z][A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")):
            used.setdefault(name, str(path.relative_to(CHECKOUT)))
    missing = {name: where for name, where in used.items() if f"`{name}`" not in page}
    assert not missing, "add them to OTHERS in stanchion/testing/reference/settings_page.py"


def test_no_setting_is_without_a_sentence() -> None:
    """Each row of the reference of settings says what the setting is."""
    mute = [line for line in read("settings.md").splitlines() if re.match(r"\| `STANCHION_\w+`.*\|\s*\|$", line)]
    assert not mute


def test_every_topic_is_listed() -> None:
    """Topics that database functions write to, and those in the code, stand in the reference of topics."""
    page = read("topics.md")
    named = {
        topic
        for path in sources(".py", ".sql")
        for topic in re.findall(r"'(stanchion\.[a-z.-]+\.v[0-9])'", path.read_text(encoding="utf-8"))
    }
    assert named
    assert not {topic for topic in named if topic not in page}


def test_the_published_events_are_those_of_the_decision() -> None:
    """Decision 0006: Kafka carries what becomes of tasks, approvals and joins; the log has the rest."""
    wanted = {
        "TaskAccepted",
        "TaskCompleted",
        "TaskFailed",
        "TaskCancelled",
        "TaskRejected",
        "BarrierReleased",
        "BarrierFailed",
    }
    wanted |= {"ApprovalRequested", "ApprovalDecided"}
    assert message_page.published() == wanted


def test_every_event_is_listed() -> None:
    """Every kind of event that a database function writes stands in the reference of states."""
    page = read("states.md")
    kinds = {
        kind
        for path in sources(".sql")
        if path.parent.name == "functions"
        for kind in re.findall(
            r"'((?:Task|Run|Step|Fan|Barrier|Artifact)[A-Z][A-Za-z]+)'", path.read_text(encoding="utf-8")
        )
    }
    assert len(kinds) > 20
    assert not {kind for kind in kinds - REPLIES.keys() if kind not in page}


@pytest.mark.parametrize("page", ["metrics.md", "log-events.md"])
def test_every_name_is_listed(page: str) -> None:
    """Metrics and log events of the source stand in their page."""
    text = read(page)
    source = (CHECKOUT / "stanchion/telemetry/names.py").read_text(encoding="utf-8")
    pattern = r'"(stanchion_\w+)"' if page == "metrics.md" else r'^    "([a-z]+\.[a-z_]+)",'
    part = source if page == "metrics.md" else source.partition("SpanName")[0]
    names = re.findall(pattern, part, re.MULTILINE)
    assert len(names) > 20
    assert not [name for name in names if f"`{name}`" not in text]
