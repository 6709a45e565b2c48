"""Whether a sentence can stand in a report: whole, readable, about its subject, understandable without its neighbours."""

from __future__ import annotations

import re

_PENALTIES = (
    (re.compile(r"^(new|changed|added|deprecated|removed) (in|since) version|^version (added|changed)", re.I), 0.05),
    (re.compile(r"\b(pip3?|uv|conda|brew|apt(-get)?|npm) (install|add)\b", re.I), 0.05),
    (re.compile(r"\b(copyright|licen[sc]ed under|all rights reserved|sponsor|donat|star (us|the|this)|badge)\b", re.I), 0.05),
    (re.compile(r"https?://|www\.|\S+@\S+\.\w+"), 0.25),
    (re.compile(r"^(see|for (more|further|details)|refer to|read|visit|check out|click|please (see|refer|read))\b", re.I), 0.12),
    (re.compile(r"\b(for (more )?details|for more information|see (also|the|above|below)|documentation (for|of|at|is))\b", re.I), 0.5),
    (re.compile(r"\b(as follows|the following|shown (above|below)|example (above|below)|(above|below) example)\b", re.I), 0.45),
    (re.compile(r"\b(issue|pr|bug|ticket|pull request) ?#?\d+|#\d{2,}\b", re.I), 0.2),
    (re.compile(r"\b(contribut(e|ing|ions|ors?)|changelog|release notes|github|gitlab|readme|wheels?|tarball)\b", re.I), 0.4),
    (re.compile(r"\b(I|I'm|I've|my|mine)\b"), 0.5),
    (re.compile(r"\b(awesome|blazing|amazing|love|happy|cool|enjoy)\b", re.I), 0.6),
    (re.compile(r"::|\.\. |\{\{|</?\w+>|\\\w+\{|\|{2}|={3,}|-{4,}|_{4,}|\*{3,}|@(type|param)"), 0.2),
    (re.compile(r"^(`[^`]*`[ ,.;]*)+$"), 0.1),
    (re.compile(r"^(changed|added|fixed|removed|improved|bumped|dropped)\b", re.I), 0.2),
    (re.compile(r"^(todo|fixme|xxx|tbd|deprecated)\b", re.I), 0.1),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), 0.2),
    (re.compile(r"^(is|are|same as|like|as|see|ditto|alias|internal)\b", re.I), 0.4),
    (re.compile(r"^Returns?:|^Raises\b|^`?\w+`?$"), 0.55),
)  # fmt: skip
_CALL = re.compile(r"^`\w+\([^)`]*\)`: [A-Z].{8,}\.$")
_THIN_ITEM = re.compile(r"^`[^`]+`\s*(\([^)]*\))?:\s[^.]{0,60}\.?(\s\S{0,60})?$")
_DANGLING = re.compile(
    r"^(this|that|these|those|it|its|they|their|them|he|she|such|but|and|or|so|also|then|thus|hence|however|therefore"
    r"|otherwise|similarly|likewise|instead|additionally|furthermore|moreover|in (this|that|these|such|which)|for this"
    r"|as (such|a result)|if so|the (former|latter|above|same|following|second|third|other)|both|here|there|again"
    r"|consequently|because of this|to do (this|so)|due to this|with this|after (this|that)|of course|finally|which"
    r"|another|yet|note that (this|it)|for (example|instance)|e\.g|different|same|where)\b",
    re.IGNORECASE,
)


def quality(text: str, *, named: bool = False, names: str = "") -> float:
    """From 0 (rubbish) to 1 (a well-formed statement of readable length).

    `named` says that the text stands under the name of what it describes, as docstrings do: it may be short then.
    `names` are the words of its headings: a sentence may begin with a project's name in lower case.
    """
    bare = text.strip()
    if not bare:
        return 0.0
    score = 1.0
    for pattern, factor in _PENALTIES:
        if pattern.search(bare):
            score *= factor
    if _CALL.match(bare):  # one line of an outline: short by nature, and named by what stands before the colon
        return score * 0.8
    if _THIN_ITEM.match(bare):
        score *= 0.4
    return score * _shape(bare, names.lower()) * max(0.8 if named else 0.0, _length(len(bare)))


def dangling(sentence: str) -> bool:
    """Whether a sentence leans on the one before it."""
    return _DANGLING.match(sentence.lstrip("*_\"'“( ")) is not None


def _shape(text: str, names: str) -> float:
    score = 1.0
    first = text.lstrip("*_\"'“‘([")[:1]
    if first.islower():
        score *= 1.0 if text.split(maxsplit=1)[0].strip("*_`").lower() in names.split() else 0.3
    elif not (first.isupper() or first in "`*<" or first.isdigit() or not first.isascii()):
        score *= 0.3
    end = text.rstrip("\"'”’)]`*_")[-1:]
    if end in ":,;":
        score *= 0.1
    elif end not in ".!?…。":
        score *= 0.45
    letters = sum(1 for char in re.sub(r"`[^`]*`", "xxxx", text) if char.isalpha() or char == " ")
    share = letters / len(re.sub(r"`[^`]*`", "xxxx", text))
    if share < 0.85:
        score *= max(0.05, (share - 0.5) / 0.35)
    if text.count("(") != text.count(")") or text.count("`") % 2:
        score *= 0.4
    if len(text.split()) < 5:
        score *= 0.4
    return score


def _length(characters: int) -> float:
    if characters < 45:
        return 0.45
    if characters < 70:
        return 0.8
    return 1.0 if characters <= 420 else max(0.3, 1.0 - (characters - 420) / 600)


_CODE_LINE = re.compile(
    r"[=(){}\[\]]|^\s*(import|from|def|class|async|await|with|for|if|else|try|return|yield|raise|@|#|\$|>>>)"
)


def code_quality(text: str) -> float:
    """Whether a code block shows how something is done: real lines of code, not a session's output or a table."""
    lines = [line for line in text.split("\n") if line.strip()]
    share = sum(1 for line in lines if _CODE_LINE.search(line)) / (len(lines) or 1)
    score = 1.0 if share >= 0.8 else 0.2
    if "Traceback" in text or text.count(">>>") > 8 or "pip install" in text:
        score *= 0.4
    if not re.search(r"^\s*\S+\s*=\s|\w\(", text, re.MULTILINE):
        score *= 0.3
    return score
