"""The sides from which any technical topic can be asked about, and the wording by which answers are recognised.

Without a model the plan's questions are drawn from these: the studio cannot invent a clever question, but it can tell a
definition from a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Facet:
    """A side of a topic. `cues` are patterns with weights; a sentence answers the better the more of them it shows."""

    id: str
    heading: str
    question: str
    cues: tuple[tuple[re.Pattern[str], float], ...]
    words: str
    names_subject: bool = False
    """Whether a sentence must begin with what it is about to count fully, as definitions do."""
    least: float = 0.3
    """Sentences of less affinity are no answer."""

    def affinity(self, sentence: str) -> float:
        """How much a sentence looks like an answer to this side of the topic, 0 to 1."""
        score = sum(weight for pattern, weight in self.cues if pattern.search(sentence))
        return max(0.0, min(1.0, score))


def _cues(*pairs: tuple[str, float]) -> tuple[tuple[re.Pattern[str], float], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), weight) for pattern, weight in pairs)


FACETS = (
    Facet(
        "definition",
        "What it is about",
        "Which things are involved, and what is each of them for?",
        _cues(
            (
                r"^((a|an|the|this|each|every|all|most)\s)?([`\w*.()-]+\s){1,6}(is|are)\s(an?|the|one|used|called|known|"
                r"defined|responsible|based|designed)\b",
                0.7,
            ),
            (
                r"\b(refers? to|means|stands? for|represents?|consists? of|is called|are called|known as|defined as)\b",
                0.5,
            ),
            (r"\b(provides?|implements?|offers?|supports?|allows?|enables?|describes?)\b", 0.25),
            (r"^(a|an)\s[\w`]", 0.2),
            (r"\b(if|when|raises?|error|must|should|default)\b", -0.3),
        ),
        "is a an provides represents means implements",
        names_subject=True,
    ),
    Facet(
        "mechanism",
        "How it works",
        "What happens, when, and in which order?",
        _cues(
            (r"\b(when|whenever|once|after|before|until|while|as soon as|each time|every time|during)\b", 0.4),
            (r"\b(then|next|first|finally|subsequently|in turn|at this point|afterwards)\b", 0.2),
            (r"\b(automatically|internally|transparently|in the background|periodically|immediately|lazily)\b", 0.3),
            (r"\b(is|are|will be|gets?)\s(\w+ly\s)?\w+(ed|en|wn|nt|ut|ld)\b", 0.25),
            (
                r"\b(causes?|triggers?|sends?|returns?|waits?|blocks?|resumes?|suspends?|executes?|calls?|invokes?)\b",
                0.2,
            ),
            (r"^(default|note|warning|raises?)\b", -0.4),
        ),
        "when after before then automatic cause trigger",
    ),
    Facet(
        "use",
        "Putting it to use",
        "How is it used in practice: which calls, in which way?",
        _cues(
            (r"^(to|use|using|call|pass|create|set|add|wrap|define|import|bind|register|in order to)\b", 0.45),
            (
                r"\b(you|we) (can|should|may|could|want|need|must|will)\b|\byou'(ll|d)\b|\byour (code|application|program)\b",
                0.4,
            ),
            (
                r"\b(can|may|should|must) be (used|called|passed|given|set|configured|combined|registered|created)\b",
                0.4,
            ),
            (r"`\w+\([^)]*\)`", 0.35),
            (
                r"^(return|get|put|remove|clear|open|close|wait|obtain|commit|fetch|send|load|read|write|check|verify|start|"
                r"stop|sign|generate|subscribe|unbind|reset|invalidate|replace|connect|run|schedule|convert|parse)s?\b",
                0.3,
            ),
            (r"\b(use|using|call|calling|pass|passing|invoke) (the |a |an )?`", 0.35),
            (
                r"\b(for example|for instance|e\.g\.|such as|recommended|typical(ly)?|usually|common(ly)?|prefer)\b",
                0.25,
            ),
            (r"\b(not|never|cannot|error|fails?)\b", -0.15),
        ),
        "use using call pass create example recommended",
    ),
    Facet(
        "settings",
        "Settings and defaults",
        "What can be configured, and what are the defaults?",
        _cues(
            (r"\bdefaults?\b", 0.5),
            (r"^`[\w*.]+`\s*(\([^)]*\))?:", 0.35),
            (r"\b(option|parameter|argument|setting|flag|keyword|attribute|property|environment variable)s?\b", 0.3),
            (r"\b(seconds?|milliseconds?|bytes|maximum|minimum|number of|timeout|interval|size|limit)\b", 0.25),
            (r"\b(configur\w+|enabled?|disabled?|set to|if (true|false|none|set|given|specified))\b", 0.3),
            (r"\b(raises?|exception)\b", -0.2),
        ),
        "default option parameter setting configure enable maximum timeout",
    ),
    Facet(
        "limits",
        "Limits and pitfalls",
        "What can go wrong, and what has to be watched?",
        _cues(
            (r"\b(errors?|exceptions?|fail(s|ed|ure|ures)?|raises?d?|invalid|abort\w*|crash\w*|corrupt\w*)\b", 0.35),
            (r"\b(not|never|cannot|can't|doesn't|don't|won't|unable|without|no longer)\b", 0.25),
            (
                r"\b(warning|caution|careful|beware|caveat|note that|important|avoid|danger\w*|unsafe|insecure|risk)\b",
                0.4,
            ),
            (r"\b(must|only|unless|otherwise|instead of|however|limit\w*|restrict\w*|unsupported|deprecated)\b", 0.25),
            (
                r"\b(leak\w*|deadlock\w*|race|lost|stale|timed? ?out|overhead|undefined|unexpected\w*|duplicat\w*)\b",
                0.3,
            ),
        ),
        "error exception fail not warning must careful avoid",
    ),
    Facet(
        "relations",
        "Alternatives and neighbours",
        "What else is there, and how do the alternatives differ?",
        _cues(
            (r"\b(instead( of)?|rather than|alternative(s|ly)?|in place of|replac\w+|substitute)\b", 0.5),
            (
                r"\b(unlike|in contrast|compared (to|with)|as opposed to|whereas|differ(s|ent|ence|ences)?|versus|vs\.?)\b",
                0.5,
            ),
            (r"\b(similar(ly)? to|equivalent( to)?|same as|analogous|corresponds? to|like the|counterpart)\b", 0.4),
            (r"\b(both|either|also|other|built on|based on|on top of|compatible|integrat\w+|works with)\b", 0.2),
            (r"\b(default|raises?)\b", -0.2),
        ),
        "instead alternative unlike similar differ equivalent other",
        least=0.45,
    ),
)
BY_ID = {facet.id: facet for facet in FACETS}
ALWAYS = ("definition", "mechanism", "use", "limits")
"""These make the four questions that every plan asks; the others need enough sentences in the sources."""
