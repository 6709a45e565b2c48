"""`stanchion artifact` against a whole stack: data on standard output, talk on standard error, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from cli_kit import Shell


def test_from_upload_to_deletion(shell: Shell, tmp_path: Path) -> None:
    """Put, list, get, pin, verify, rm; each with its code."""
    task = shell("task", "submit", "squares", "n:=2", "--quiet").out.split()[0]
    file = tmp_path / "report.md"
    file.write_bytes(b"# one\n")
    first = shell("artifact", "put", task, str(file), "--json").document
    assert (first["name"], first["number"], first["media_type"]) == ("report.md", 1, "text/markdown")
    file.write_bytes(b"# two\n")
    second = shell("artifact", "put", task, str(file), "--from", first["version_id"], "--quiet").out.strip()
    listed = shell("artifact", "list", task, "--jsonl").out.splitlines()
    assert [json.loads(line)["number"] for line in listed] == [2, 1]
    copy = tmp_path / "copy.md"
    assert shell("artifact", "get", second, "--output", str(copy)).code == 0
    assert copy.read_bytes() == b"# two\n"
    assert shell("artifact", "get", second, "--output", str(copy)).code == 5
    assert shell("artifact", "verify", second, "--json").document["intact"] is True
    assert shell("artifact", "pin", second).code == 0
    assert shell("artifact", "rm", second, "--yes").code == 5
    assert shell("artifact", "pin", second, "--off").code == 0
    assert shell("artifact", "rm", second).code == 2
    assert shell("artifact", "rm", second, first["version_id"], "--yes").code == 0
    assert shell("artifact", "get", second).code == 3
    assert shell("artifact", "put", task, str(tmp_path / "none")).code == 2
    assert shell("artifact", "list", task, "--json").document["items"] == []
