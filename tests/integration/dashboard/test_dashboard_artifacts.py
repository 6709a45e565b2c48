"""Artifacts on pages: lists, lineage, previews that run nothing, downloads in the visitor's own name, differences."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless, fanned, tsk
from kit.engine import Engine
from records_kit import Shelf, SignIn, send

from stanchion.authority.keys import ROLES, Keys
from stanchion.db.engine import Database

if TYPE_CHECKING:
    from services.task_service.deps import Deps

SCRIPT = "</script><script>alert(2)</script>"
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + b"\x00" * 40
POLYGLOT = b"GIF89a/*<script>alert(1)</script>*/=1;" + b"\x00" * 20


@pytest.fixture(scope="module")
def api(task_service: str, service: Database, tenants: dict[str, UUID]) -> Iterator[httpx2.Client]:
    """A program with the rights of an admin."""
    _, secret = Keys(service).create(tenants["dev"], "uploader", ROLES["admin"], actor="test")
    with httpx2.Client(base_url=task_service, headers={"authorization": f"Bearer {secret}"}, timeout=30.0) as client:
        yield client


@pytest.fixture(scope="module")
def shelf(api: httpx2.Client, engine: Engine) -> Shelf:
    """A task to which things are uploaded."""
    task, _ = fanned(engine, 1)
    return Shelf(api, tsk(task))


@pytest.fixture(scope="module")
def ann(sign_in: SignIn) -> httpx2.Client:
    """An admin's browser."""
    return sign_in("ann", "admin")


@pytest.fixture(scope="module")
def vera(sign_in: SignIn) -> httpx2.Client:
    """A viewer's browser: no payloads, and no content."""
    return sign_in("vera", "viewer")


class TestLists:
    """What there is."""

    def test_the_newest_of_the_tenant_and_those_of_a_task(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """Name, version, type, size, hash, who made it; a filter that matches nothing can be dropped."""
        art = shelf.put("report.txt", b"one\n")
        for path in (
            "/artifacts",
            f"/tasks/{shelf.tsk}/artifacts",
            f"/artifacts?task={shelf.tsk}",
            "/artifacts?name=report.txt",
        ):
            read = Read.of(ann.get(path))
            check_harmless(read)
            assert f"/artifacts/{art}" in [link.get("href") for link in read.named("a")], path
            assert "key:uploader" in read.text
            assert "4 B" in read.text
        nothing = Read.of(ann.get("/artifacts?name=nosuch"))
        assert "No artifact is named nosuch" in nothing.text
        assert "/artifacts" in [link.get("href") for link in nothing.named("a")]

    def test_pages_are_bounded_and_follow_each_other(
        self, ann: httpx2.Client, api: httpx2.Client, engine: Engine
    ) -> None:
        """Fifty at most; the next page has the others, and none twice."""
        task, _ = fanned(engine, 1)
        many = Shelf(api, tsk(task))
        made = {many.put("many.txt", str(n).encode()) for n in range(53)}
        seen: list[str] = []
        path = f"/artifacts?task={many.tsk}"
        while path:
            read = Read.of(ann.get(path))
            found = [a["href"] or "" for a in read.named("a") if (a.get("href") or "").startswith("/artifacts/art_")]
            assert 0 < len(found) <= 50
            seen += [href.removeprefix("/artifacts/") for href in found]
            path = next((a["href"] or "" for a in read.named("a") if a.get("rel") == "next"), "")
        assert (len(seen), set(seen)) == (53, made)

    def test_what_is_another_tenants_is_not_there(
        self, site: str, service: Database, tenants: dict[str, UUID], shelf: Shelf
    ) -> None:
        """404 for its page, its content, its image and a comparison; no list has it."""
        art = shelf.put("secret.txt", b"mine")
        _, secret = Keys(service).create(tenants["other"], "theirs", ROLES["admin"], actor="test")
        with httpx2.Client(base_url=site, headers={"authorization": f"Bearer {secret}"}) as other:
            for path in ("", "/content", "/image", f"/compare?with={art}"):
                assert other.get(f"/artifacts/{art}{path}").status_code == 404, path
            assert art not in other.get("/artifacts").text
            assert other.get(f"/artifacts?task={shelf.tsk}").status_code == 404


class TestVersion:
    """One version."""

    def test_lineage_and_versions(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """From which it was made and into which, its hash, and the others of its name."""
        first = shelf.put("chapter.md", b"# One\n")
        second = shelf.put("chapter.md", b"# Two\n", made_from=first)
        older, newer = Read.of(ann.get(f"/artifacts/{first}")), Read.of(ann.get(f"/artifacts/{second}"))
        assert f"/artifacts/{second}" in [a.get("href") for a in older.named("a")]
        assert f"/artifacts/{first}" in [a.get("href") for a in newer.named("a")]
        assert "v1, not the latest" in older.text
        assert f"/artifacts/{second}/compare?with={first}" in [a.get("href") for a in newer.named("a")]

    def test_it_is_pinned_let_go_verified_and_deleted(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """By forms; what is left of a deleted one says who and why, and has its hash."""
        art = shelf.put("draft.txt", b"draft")
        assert send(ann, "artifact.pin", art).status_code == 303
        page = ann.get(f"/artifacts/{art}").text
        assert f"/do/artifact.unpin/{art}" in page
        assert f"/do/artifact.delete/{art}" not in page
        assert send(ann, "artifact.unpin", art).status_code == 303
        assert "The stored content is what its hash says." in send(ann, "artifact.verify", art).text
        assert send(ann, "artifact.delete", art).status_code == 303
        left = Read.of(ann.get(f"/artifacts/{art}")).text
        assert "Its content was removed" in left
        assert "person:ann" in left
        assert hashlib.sha256(b"draft").hexdigest() in left
        assert ann.get(f"/artifacts/{art}/content").status_code == 404

    def test_damage_is_said(
        self, ann: httpx2.Client, shelf: Shelf, task_service_parts: tuple[str, Deps], tenants: dict[str, UUID]
    ) -> None:
        """Verifying answers with what it found, not with having been done."""
        art = shelf.put("damaged.txt", b"whole")
        task_service_parts[1].objects.of(tenants["dev"]).delete(hashlib.sha256(b"whole").digest())
        answer = send(ann, "artifact.verify", art)
        assert answer.status_code == 200
        assert "It is damaged." in answer.text
        assert "The stored content is what its hash says." not in answer.text
        assert "This is about the preview only" in ann.get(f"/artifacts/{art}").text

    def test_what_differs_between_two_texts(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """The older one first, whichever was named first; hostile lines stay lines."""
        old = shelf.put("diff.txt", f"same\ngone\n{SCRIPT}\n".encode())
        new = shelf.put("diff.txt", f"same\ncome {HOSTILE}\n{SCRIPT}\n".encode())
        for path in (f"/artifacts/{old}/compare?with={new}", f"/artifacts/{new}/compare?with={old}"):
            read = Read.of(ann.get(path))
            check_harmless(read)
            assert "− gone" in read.text
            assert f"+ come {HOSTILE}" in read.text
        assert "no text" in ann.get(f"/artifacts/{old}/compare?with={shelf.put('x.bin', bytes(9))}").text
        assert ann.get(f"/artifacts/{old}/compare").status_code == 422


class TestPreviews:
    """What can be looked at, and that nothing of it runs."""

    @pytest.mark.parametrize(
        ("name", "media_type", "content"),
        [
            ("page.html", "text/html", f"<!doctype html><body onload=alert(1)>{SCRIPT}".encode()),
            ("drawing.svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
            ("fake.png", "image/png", f"<html>{SCRIPT}</html>".encode()),
            ("table.csv", "text/csv", f"a,b\n{HOSTILE},{SCRIPT}\n=cmd|'/c calc'!A1,2\n".encode()),
            ("notes.md", "text/markdown", f"# hi\n[x](javascript:alert(1)) {HOSTILE} {SCRIPT}\n".encode()),
            ("data.json", "application/json", b'{"a": "<img src=x onerror=alert(1)>", "n": 1.10}'),
            (f"{HOSTILE}.txt", "text/plain", b"a name"),
            ("frame.txt", "text/plain", b"{{ 7 * 7 }}{% raw %}"),
        ],
    )
    def test_hostile_content_stays_text(
        self, ann: httpx2.Client, shelf: Shelf, name: str, media_type: str, content: bytes
    ) -> None:
        """Escaped on the page, as a file to keep elsewhere, and never as an image."""
        art = shelf.put(name, content, media_type)
        page = ann.get(f"/artifacts/{art}")
        assert page.status_code == 200
        read = Read.of(page)
        check_harmless(read)
        assert "49" not in [word for word in read.texts if word.strip() == "49"]
        kept = ann.get(f"/artifacts/{art}/content")
        assert kept.content == content
        check_inert(kept)
        assert kept.headers["content-disposition"].startswith("attachment")
        assert kept.headers["content-type"].partition(";")[0] not in ("text/html", "image/svg+xml")
        assert ann.get(f"/artifacts/{art}/image").status_code == 422

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            (PNG, "image/png"),
            (b"\xff\xd8\xff\xe0" + bytes(30), "image/jpeg"),
            (POLYGLOT, "image/gif"),
            (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        ],
    )
    def test_images_by_their_first_bytes(self, ann: httpx2.Client, shelf: Shelf, content: bytes, kind: str) -> None:
        """Whatever they are called or declared as; a file that is a script too is an image, and nothing else."""
        art = shelf.put("picture.html", content, "text/html")
        images = list(Read.of(ann.get(f"/artifacts/{art}")).named("img"))
        assert [image["src"] for image in images] == [f"/artifacts/{art}/image"]
        assert images[0]["alt"] == "picture.html"
        shown = ann.get(f"/artifacts/{art}/image")
        assert (shown.headers["content-type"], shown.content) == (kind, content)
        check_inert(shown)
        assert shown.headers["content-disposition"] == "inline"

    def test_a_large_image_is_only_downloaded(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """Above five megabytes."""
        art = shelf.put("large.png", PNG + bytes(5_000_000), "image/png")
        assert "<img" not in ann.get(f"/artifacts/{art}").text
        assert "too large to show" in ann.get(f"/artifacts/{art}").text
        assert ann.get(f"/artifacts/{art}/image").status_code == 413

    def test_tables_are_cut(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """Five hundred rows, the head beside them, and it says so."""
        rows = "".join(f"{n},x{n}\n" for n in range(700))
        art = shelf.put("t.csv", f"n,name\n{rows}".encode(), "text/csv")
        page = ann.get(f"/artifacts/{art}")
        read = Read.of(page)
        assert "The first 500 rows." in read.text
        assert "<td>x499</td>" in page.text
        assert "<td>x500</td>" not in page.text

    def test_a_long_text_is_read_in_part(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """The first 256 kB, not in the middle of a character."""
        text = "é" * 200_000 + "THE END"
        page = ann.get(f"/artifacts/{shelf.put('long.txt', text.encode())}")
        assert "The first 256 kB" in page.text
        assert "THE END" not in page.text
        assert len(page.content) < 300_000

    def test_json_is_laid_out_as_it_was_written(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """Numbers keep their digits; what is no JSON is shown as text."""
        whole, broken = b'{"a":[1.10,12345678901234567890]}', b'{"a":'
        good = ann.get(f"/artifacts/{shelf.put('g.json', whole, 'application/json')}")
        assert "1.10,\n    12345678901234567890" in good.text
        bad = ann.get(f"/artifacts/{shelf.put('b.json', broken, 'application/json')}")
        assert "It is no JSON." in bad.text


class TestDownloads:
    """Content goes through, and is never kept."""

    def test_a_large_one_is_streamed_whole_or_in_part(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """The same bytes, a range of them, and 304 for what is known."""
        content = zlib.compress(bytes(1_000_000)) + bytes(range(256)) * 40_000
        art = shelf.put("large.bin", content, "application/octet-stream")
        whole = ann.get(f"/artifacts/{art}/content")
        assert (whole.content, int(whole.headers["content-length"])) == (content, len(content))
        part = ann.get(f"/artifacts/{art}/content", headers={"range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, content[10:20])
        known = ann.get(f"/artifacts/{art}/content", headers={"if-none-match": whole.headers["etag"]})
        assert known.status_code == 304

    def test_asking_for_the_head_reads_nothing(self, ann: httpx2.Client, shelf: Shelf) -> None:
        """The same headers, and no body."""
        art = shelf.put("head.txt", b"x" * 1_000)
        head = ann.head(f"/artifacts/{art}/content")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "1000", b"")
        check_inert(head)

    def test_a_reader_that_leaves_ends_it(
        self,
        ann: httpx2.Client,
        shelf: Shelf,
        eventually: Callable[..., Any],
        task_service_parts: tuple[str, Deps],
    ) -> None:
        """The task service gets its place back."""
        transfers = task_service_parts[1].transfers
        art = shelf.put("huge.bin", bytes(60_000_000), "application/octet-stream")
        with ann.stream("GET", f"/artifacts/{art}/content") as answer:
            assert next(answer.iter_raw())
            assert transfers.under_way == 1
        eventually(lambda: transfers.under_way == 0)

    def test_a_neighbour_gets_no_content(self, web: httpx2.Client, shelf: Shelf) -> None:
        """Pages are open on one's own machine; content is read in somebody's name, so one is asked to sign in."""
        art = shelf.put("n.txt", b"canary-4711")
        page = web.get(f"/artifacts/{art}")
        assert page.status_code == 200
        assert "canary-4711" not in page.text
        assert "/sign-in" in page.text
        for path in ("content", "image"):
            assert web.get(f"/artifacts/{art}/{path}").status_code == 401

    def test_a_viewer_sees_what_it_is_and_no_content(self, vera: httpx2.Client, shelf: Shelf) -> None:
        """Hidden by role, and 403 behind it."""
        art = shelf.put("v.txt", b"canary-4712")
        page = vera.get(f"/artifacts/{art}")
        assert page.status_code == 200
        assert "Hidden by role" in page.text
        assert "canary-4712" not in page.text
        for path in ("content", "image", f"compare?with={shelf.put('v.txt', b'x')}"):
            refused = vera.get(f"/artifacts/{art}/{path}")
            assert (refused.status_code, "artifact.read" in refused.text) == (403, True), path

    def test_without_the_task_service_the_rest_is_shown(
        self, url: str, service: Database, tenants: dict[str, UUID], shelf: Shelf
    ) -> None:
        """The preview says so, the download is 503."""
        art = shelf.put("away.txt", b"x")
        _, secret = Keys(service).create(tenants["dev"], "away", ROLES["admin"], actor="test")
        with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {secret}"}) as client:
            page = client.get(f"/artifacts/{art}")
            assert (page.status_code, "E-PAGE-01" in page.text, "away.txt" in page.text) == (200, True, True)
            assert client.get(f"/artifacts/{art}/content").status_code == 503


def check_inert(answer: httpx2.Response) -> None:
    """Nothing in it can run, whatever a browser makes of it."""
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "no-store" in answer.headers["cache-control"]
