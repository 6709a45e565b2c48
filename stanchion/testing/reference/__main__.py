"""`python -m stanchion.testing.reference`: write the reference pages, or say which of them are out of date."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from .pages import CHECKOUT, PAGES, index

_DIFF_LINES = 60


def main() -> int:
    """Exit code 0 when all is written, or up to date; 1 when a page can't be rendered, or differs."""
    options = _parser().parse_args()
    rendered, broken = _rendered()
    folder: Path = options.folder
    stale = []
    if options.write:
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in rendered.items():
        path = folder / name
        known = path.read_text(encoding="utf-8") if path.is_file() else ""
        if known == text:
            continue
        if options.write:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
        else:
            stale.append(name)
            _show(path, known, text)
    unknown = sorted({path.name for path in folder.glob("*.md")} - rendered.keys() - broken.keys())
    for name in unknown:
        sys.stderr.write(f"{folder / name} is rendered from nothing: remove it\n")
    for name, error in broken.items():
        sys.stderr.write(f"{name} can't be rendered: {type(error).__name__}: {error}\n")
    if stale:
        sys.stderr.write(f"out of date: {', '.join(stale)}; fix: make generate\n")
    return 1 if stale or unknown or broken else 0


def _rendered() -> tuple[dict[str, str], dict[str, Exception]]:
    """The text of each page, and what kept the others from being rendered."""
    rendered, broken = {"README.md": index()}, {}
    for page in PAGES:
        try:
            rendered[page.file] = page.render()
        except Exception as error:  # noqa: BLE001 - one broken page must not hide what is wrong with the others
            broken[page.file] = error
    return rendered, broken


def _show(path: Path, known: str, text: str) -> None:
    lines = list(difflib.unified_diff(known.splitlines(), text.splitlines(), str(path), "the code", lineterm="", n=1))
    sys.stdout.write("\n".join(lines[:_DIFF_LINES]) + "\n")
    if len(lines) > _DIFF_LINES:
        sys.stdout.write(f"... and {len(lines) - _DIFF_LINES} more lines\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stanchion.testing.reference", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write what differs")
    what.add_argument("--check", action="store_true", help="print what differs, and fail")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "docs" / "reference", help="where the pages are")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
