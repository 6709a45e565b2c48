"""The words of Stanchion, as `docs/glossary.md` has them: `make generate` copies it beside this file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ROW: Final = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)

WORDS: Final[dict[str, str]] = dict(_ROW.findall(Path(__file__).with_name("words.md").read_text(encoding="utf-8")))
"""Each word with its meaning, in which code stands between backticks."""
