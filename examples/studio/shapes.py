"""The values that travel between the steps of the studio: plain dataclasses with JSON-safe content."""

from __future__ import annotations

from dataclasses import dataclass, field

from stanchion import Artifact


@dataclass(frozen=True)
class DocumentRef:
    """Names one document so that any process on any machine with the same sources can read it again.

    `id` is stable: `pkg:fastapi`, `module:redis.connection`, `topic:lambda`, `file:sub/path.md`. `where` is what the
    kind needs to find it: a distribution's name, a path. `problem` is set when the listing already knows that the
    document cannot be read; reading it then only hands the reason on.
    """

    id: str
    kind: str
    title: str
    where: str
    version: str = ""
    licence: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Term:
    """A stem to look for. `weight` scales its score; `covers` lists the topic's words (by index) that it stands for."""

    stem: str
    weight: float
    idf: float
    covers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """One question of the plan: its heading in the report, its wording, and how evidence for it is recognised."""

    id: str
    heading: str
    text: str
    facet: str = ""
    terms: list[Term] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """How a topic is to be researched; small (a few KB) since every reading task carries it.

    `words` are the topic's content words as written, `terms` the stems that speak about them, `pairs` the stems of
    neighbouring words, `parts` the topic's parts, each a list of alternatives, as indexes into `words`.
    `method` says how the questions came about, `notes` what the reader of the report should know.
    """

    topic: str
    words: list[str]
    terms: list[Term]
    pairs: list[str]
    questions: list[Question]
    method: str
    parts: list[list[list[int]]]
    model: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReadingTask:
    """The input of one child: a document, and what to look for in it."""

    document: DocumentRef
    plan: Plan


@dataclass(frozen=True)
class Passage:
    """A numbered piece of a document. `digest` is the SHA-256 of `text`, by which review recognises it again.

    `noise` marks text about the project or repeated from above; `lead` the first prose under its heading.
    """

    number: int
    text: str
    heading: str
    kind: str
    digest: str
    noise: bool = False
    lead: bool = False


@dataclass(frozen=True)
class Candidate:
    """A passage that a reading found worth handing on, with its score within the document for each question id."""

    passage: Passage
    scores: dict[str, float]


@dataclass(frozen=True)
class Reading:
    """What one child brings back, at most 64 KiB as JSON.

    `frequencies` counts the passages that contain each stem of the plan; summed over all readings they are the
    statistics of the whole corpus. `problem` says why a document gave nothing.
    """

    document: DocumentRef
    passages: int
    words: int
    frequencies: dict[str, int]
    candidates: list[Candidate]
    problem: str = ""
    note: str = ""


@dataclass(frozen=True)
class Citation:
    """Where a statement stands: `quote` must be found in the passage with this number and digest."""

    number: int
    document: DocumentRef
    passage: int
    heading: str
    digest: str
    quote: str


@dataclass(frozen=True)
class Statement:
    """A piece of the report's text with the numbers of the citations that carry it. `kind` is `text` or `code`."""

    text: str
    citations: list[int]
    kind: str = "text"


@dataclass(frozen=True)
class Section:
    """A question and its answer. `remark` says in words when the evidence is weak or absent."""

    heading: str
    question: str
    statements: list[Statement]
    remark: str = ""


@dataclass(frozen=True)
class Missing:
    """A document that is not in the report, and why."""

    document: str
    title: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The report before review: structure and rendered Markdown."""

    topic: str
    sections: list[Section]
    citations: list[Citation]
    missing: list[Missing]
    coverage: str
    method: str
    documents: int
    notes: list[str] = field(default_factory=list)
    markdown: str = ""


@dataclass(frozen=True)
class Proposal:
    """A report that people are asked about. `artifact` is the version of the report that would be published."""

    channel: str
    title: str
    artifact: Artifact
    summary: str


@dataclass(frozen=True)
class Publication:
    """Where a report was published, by the receipt of the press; `approved_by` are people, as `person:ana`."""

    id: str
    url: str
    at: str
    approved_by: list[str]


@dataclass(frozen=True)
class Report:
    """The report with what review counted. `unresolved` citations were withdrawn from the text.

    `artifact` is the version that was written of it. `channel` is where it is to be published, and empty when it is
    not; `publication` says that it was, `note` why it was not.
    """

    topic: str
    markdown: str
    documents: int
    missing: int
    citations: int
    resolved: int
    unresolved: int
    withdrawn: list[str] = field(default_factory=list)
    artifact: Artifact | None = None
    channel: str = ""
    publication: Publication | None = None
    note: str = ""
