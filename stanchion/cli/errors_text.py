"""An error for people on stderr: code and sentence, then cause, fix and request id; one JSON line for programs."""

from __future__ import annotations

import json
import sys

from stanchion.cli.ink import for_people, styled
from stanchion.cli.session import VERSION, Session
from stanchion.errors import CODES, StanchionError


def tell(error: StanchionError, session: Session) -> None:
    """Write an error to stderr."""
    request_id = error.details.get("request_id")
    info = CODES.get(error.code)
    fix = error.fix or (info.fix if info else None)
    if session.machine:
        fields = {
            "code": error.code,
            "what": error.what,
            "where": error.where,
            "why": error.why,
            "fix": fix,
            "request_id": request_id,
        }
        document = {"v": VERSION, "error": {name: value for name, value in fields.items() if value is not None}}
        sys.stderr.write(json.dumps(document) + "\n")
        return
    colored = session.colored(sys.stderr)
    head = styled(f"error[{error.code}]", fg="red", bold=True) if colored else f"error[{error.code}]"
    lines = [f"{head} {error.what}" + (f" ({error.where})" if error.where else "")]
    lines += [f"  cause: {line}" if number == 0 else f"         {line}" for number, line in _lines(error.why)]
    lines += [f"  fix: {line}" if number == 0 else f"       {line}" for number, line in _lines(fix)]
    if request_id:
        lines.append(f"  request: {request_id}")
    sys.stderr.write(for_people("\n".join(lines)) + "\n")


def _lines(text: str | None) -> list[tuple[int, str]]:
    return list(enumerate((text or "").splitlines()))
