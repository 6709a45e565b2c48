"""Artifacts over HTTP: upload, list, download as a file, ranges, pins, deletion; and what the door refuses."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from task_service_kit import Api, Hand

from services.task_service.settings import TaskServiceSettings
from stanchion.authority.leases import Done
from stanchion.authority.objects import Objects
from stanchion.contracts import ids
from stanchion.errors import Conflict, NotFound, TooLarge, Unprocessable
from stanchion.sdk.artifacts import ArtifactDoor
from stanchion.sdk.asking import at_once
from stanchion.sdk.client import Client

MIB = 1024 * 1024
MEASURED = Path(__file__).with_name("artifact_process.py")
HOSTILE = ("../up", "a/../../b", "a\u202efdp.exe", "a\0b", "a\r\nSet-Cookie: x", "/", ".", "x" * 790, "x" * 1_000_000)


@pytest.fixture(scope="module")
def client(url: str, api: Api) -> Iterator[Client]:
    """The SDK's client with the key of tenant acme."""
    with Client(url, api.key) as made:
        yield made


@pytest.fixture
def task(api: Api) -> str:
    """A task to upload to."""
    found: str = api.submit("single", {})["task_id"]
    return found


@pytest.fixture(scope="module")
def objects(settings: TaskServiceSettings) -> Iterator[Objects]:
    """The store behind the service, for damaging."""
    made = Objects(settings.objects_url)
    yield made
    made.close()


def status_of(api: Api, path: str) -> int | None:
    """The status of an upload, by a client that sends whatever it is given; None when the connection was cut."""
    place = urlsplit(str(api.http.base_url))
    connection = http.client.HTTPConnection(str(place.hostname), place.port or 0, timeout=20)
    try:
        connection.request("POST", path, body=b"x", headers={"Authorization": f"Bearer {api.key}"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TestUploading:
    """One version an upload, visible once all of it is there."""

    def test_a_version_and_the_next(self, client: Client, api: Api, task: str) -> None:
        """Numbered by name; who uploaded it, and from what, stands with it."""
        one = client.artifacts.put(task, "report.md", b"# one", media_type="text/markdown")
        two = client.artifacts.put(
            task, "report.md", b"# two", media_type="text/markdown", made_from=[one["version_id"]]
        )
        assert (one["number"], two["number"], two["sha256"], two["size"]) == (1, 2, sha(b"# two"), 5)
        assert one["actor"].startswith("key:platform")
        assert client.artifacts.get(one["version_id"])["made_into"] == [two["version_id"]]
        listed = api.get(f"/v1/tasks/{task}/artifacts")["items"]
        assert [(v["number"], v["latest"]) for v in listed] == [(2, True), (1, False)]
        assert [v["media_type"] for v in listed] == ["text/markdown"] * 2

    def test_pages_and_names(self, client: Client, task: str) -> None:
        """A page at a time, and by name."""
        for n in range(5):
            client.artifacts.put(task, f"part/{n % 2}", str(n).encode())
        first = client.artifacts.list(task, limit=3)
        rest = client.artifacts.list(task, limit=3, cursor=first.next)
        assert [len(first.items), len(rest.items), rest.next] == [3, 2, None]
        assert [v["number"] for v in client.artifacts.list(task, name="part/0").items] == [3, 2, 1]

    @pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_names_are_refused(self, api: Api, task: str, name: str) -> None:
        """Before a byte is stored; one of a megabyte does not even reach us."""
        path = f"/v1/tasks/{task}/artifacts?name={quote(name, safe='')}"
        status = status_of(api, path)
        assert status in ((400, 414, 422) if len(name) < 100_000 else (400, 413, 414, 422, 431, None))
        assert api.get(f"/v1/tasks/{task}/artifacts")["items"] == []

    @pytest.mark.parametrize("media_type", ["text", "text/html, a/b", "a/b; c", "a" * 300 + "/b"])
    def test_media_types_are_checked(self, api: Api, task: str, media_type: str) -> None:
        """They go out in a header one day."""
        response = api.http.post(
            f"/v1/tasks/{task}/artifacts", params={"name": "x"}, content=b"x", headers={"content-type": media_type}
        )
        assert response.status_code in (400, 422)

    def test_what_is_not_what_was_announced_is_not_stored(self, api: Api, task: str) -> None:
        """The hash that the sender names is compared, and nothing is visible."""
        path = f"/v1/tasks/{task}/artifacts?name=x&sha256={sha(b'other')}"
        assert api._checked(api.http.post(path, content=b"this"), 422)["code"] == "E-OBJ-02"
        assert api.get(f"/v1/tasks/{task}/artifacts")["items"] == []

    def test_encoded_content_is_refused(self, api: Api, task: str) -> None:
        """What is kept is what was sent, and whoever reads it could not know that it has to be decoded."""
        headers = {"content-encoding": "gzip"}
        answer = api.http.post(f"/v1/tasks/{task}/artifacts?name=x", content=gzip.compress(b"x"), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "E-HTTP-04")
        assert api.get(f"/v1/tasks/{task}/artifacts")["items"] == []

    def test_a_sender_that_leaves_in_the_middle_leaves_nothing(
        self, api: Api, task: str, url: str, look: psycopg.Connection[Any], eventually: Callable[..., Any]
    ) -> None:
        """The row stays pending, for the sweeper; no version is visible."""
        place = urlsplit(url)
        raw = socket.create_connection((str(place.hostname), place.port or 0), 10)
        head = f"POST /v1/tasks/{task}/artifacts?name=gone HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
        raw.sendall(head.encode() + b"Content-Length: 9000000\r\n\r\n" + b"x" * 3_000_000)
        count = "SELECT count(*) FROM stanchion.artifact_version JOIN stanchion.artifact USING (artifact_id) WHERE name = 'gone'"
        eventually(lambda: look.execute(count).fetchone() == (1,))
        raw.close()
        state = count.replace("count(*)", "state")
        assert look.execute(state).fetchone() == ("pending",)
        assert api.get(f"/v1/tasks/{task}/artifacts")["items"] == []

    def test_an_unknown_task_is_said_before_all_is_sent(self, client: Client) -> None:
        """Also when the sender goes on sending."""
        with pytest.raises(NotFound):
            client.artifacts.put("tsk_00000000000000000000000000", "x", iter([b"x" * MIB] * 200))

    def test_what_is_too_large(self, client: Client, task: str, api: Api, settings: TaskServiceSettings) -> None:
        """With the limit in the answer, and nothing visible."""
        with pytest.raises(TooLarge, match="E-SIZE-01"):
            client.artifacts.put(task, "x", iter([b"x" * MIB] * (settings.upload_bytes // MIB + 2)))
        assert api.get(f"/v1/tasks/{task}/artifacts")["items"] == []

    def test_a_source_that_is_not_there(self, client: Client, task: str) -> None:
        """Not found, or no id at all."""
        with pytest.raises(NotFound):
            client.artifacts.put(task, "x", b"x", made_from=["art_00000000000000000000000000"])
        with pytest.raises(Unprocessable):
            client.artifacts.put(task, "x", b"x", made_from=["tsk_00000000000000000000000000"])


class TestDownloading:
    """Content comes as a file to keep."""

    def test_headers(self, client: Client, api: Api, task: str) -> None:
        """Length, hash as entity tag, an attachment under its own name, and nothing for a browser to run."""
        made = client.artifacts.put(task, 'pages/Größe "1".html', b"<script>", media_type="text/html")
        response = api.http.get(f"/v1/artifacts/{made['version_id']}/content")
        headers = response.headers
        assert response.content == b"<script>"
        assert headers["content-length"] == "8"
        assert headers["etag"] == f'"{sha(b"<script>")}"'
        assert headers["content-disposition"] == (
            "attachment; filename=\"Gr__e _1_.html\"; filename*=UTF-8''" + quote('Größe "1".html', safe="")
        )
        assert headers["content-type"] == "application/octet-stream"
        assert headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in headers["content-security-policy"]
        assert "no-store" in headers["cache-control"] or "private" in headers["cache-control"]

    @pytest.mark.parametrize(
        ("asked", "status", "got"),
        [
            ("bytes=0-3", 206, b"0123"),
            ("bytes=4-", 206, b"456789"),
            ("bytes=-3", 206, b"789"),
            ("bytes=-30", 206, b"0123456789"),
            ("bytes=8-100", 206, b"89"),
            ("bytes=0-1,4-5", 200, b"0123456789"),
            ("bytes=5-2", 200, b"0123456789"),
            ("lines=1-2", 200, b"0123456789"),
            ("bytes=10-", 416, b""),
            ("bytes=" + "9" * 18 + "-", 416, b""),
        ],
    )
    def test_ranges(self, client: Client, api: Api, task: str, asked: str, status: int, got: bytes) -> None:
        """One range is given; several, or nonsense, give all of it."""
        made = client.artifacts.put(task, "digits", b"0123456789", media_type="text/plain")
        path = f"/v1/artifacts/{made['version_id']}/content"
        response = api.http.get(path, headers={"range": asked})
        assert response.status_code == status
        if status == 416:
            assert response.json()["code"] == "E-HTTP-05"
            return
        assert response.content == got
        head = api.http.head(path, headers={"range": asked})
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["content-length"] == str(len(got))

    def test_what_is_known_is_not_sent_again(self, client: Client, api: Api, task: str) -> None:
        """By If-None-Match; a range of a version that changed is all of it."""
        made = client.artifacts.put(task, "x", b"12345")
        path = f"/v1/artifacts/{made['version_id']}/content"
        known = api.http.get(path, headers={"if-none-match": f'W/"x", "{sha(b"12345")}"'})
        assert (known.status_code, known.content) == (304, b"")
        other = api.http.get(path, headers={"range": "bytes=0-1", "if-range": '"other"'})
        assert (other.status_code, other.content) == (200, b"12345")

    def test_an_empty_one(self, client: Client, task: str) -> None:
        """Nothing is content too."""
        made = client.artifacts.put(task, "empty", b"")
        assert client.artifacts.read(made["version_id"]) == b""

    def test_saving_is_whole_or_not_at_all(self, client: Client, task: str, tmp_path: Path) -> None:
        """A file, and none of a version that is not there."""
        made = client.artifacts.put(task, "file", io.BytesIO(b"abc" * MIB))
        assert client.artifacts.save(made["version_id"], tmp_path / "one") == 3 * MIB
        with pytest.raises(NotFound):
            client.artifacts.save("art_00000000000000000000000000", tmp_path / "two")
        assert [path.name for path in tmp_path.iterdir()] == ["one"]

    def test_damage_is_found(
        self, client: Client, api: Api, task: str, objects: Objects, look: psycopg.Connection[Any]
    ) -> None:
        """By a verification, and by a download, which then ends before its end."""
        data = b"intact" * 500_000
        made = client.artifacts.put(task, "x", data)
        assert client.artifacts.verify(made["version_id"])["intact"] is True
        (tenant,) = look.execute("SELECT tenant_id FROM stanchion.tenant WHERE name = 'acme'").fetchone() or ("",)
        folder = Path(urlsplit(objects.url or "").path) / f"scope-{tenant}" / "sha256"
        stored = next(folder.rglob(sha(data)))
        stored.write_bytes(b"DAMAGE" + data[6:])
        told = client.artifacts.verify(made["version_id"])
        assert (told["intact"], told["code"]) == (False, "E-OBJ-03")
        with pytest.raises(Exception, match=r"E-API-0|incomplete|broke|closed"):
            client.artifacts.read(made["version_id"])
        stored.unlink()
        assert client.artifacts.verify(made["version_id"])["code"] == "E-OBJ-01"
        assert api.http.get(f"/v1/artifacts/{made['version_id']}/content").status_code == 404


class TestKeeping:
    """Pins and deletion."""

    def test_pinned_then_deleted(self, client: Client, api: Api, task: str) -> None:
        """A pinned version refuses; a deleted one is not there; deleting again is said."""
        version = client.artifacts.put(task, "x", b"x")["version_id"]
        assert client.artifacts.pin(version) == {"version_id": version, "pinned": True}
        with pytest.raises(Conflict, match="E-ART-03"):
            client.artifacts.delete(version)
        client.artifacts.pin(version, pinned=False)
        assert client.artifacts.delete(version, reason="done with it")["deleted"] is True
        assert client.artifacts.delete(version)["deleted"] is False
        for path in ("", "/content"):
            assert api.get(f"/v1/artifacts/{version}{path}", 404)["code"] == "E-FIND-01"

    def test_rights(self, make_api: Callable[..., Api], client: Client, task: str) -> None:
        """A viewer sees names and sizes; an operator reads and uploads; deleting and pinning are an admin's."""
        version = client.artifacts.put(task, "x", b"x")["version_id"]
        viewer, operator, admin = (make_api("acme", role) for role in ("viewer", "operator", "admin"))
        viewer.get(f"/v1/artifacts/{version}")
        for path, right in ((f"/v1/artifacts/{version}/content", "artifact.read"),):
            assert right in viewer.get(path, 403)["why"]
        assert viewer._checked(viewer.http.post(f"/v1/tasks/{task}/artifacts?name=x", content=b"x"), 403)
        assert operator.http.get(f"/v1/artifacts/{version}/content").content == b"x"
        operator._checked(operator.http.post(f"/v1/tasks/{task}/artifacts?name=x", content=b"y"), 201)
        operator.post(f"/v1/artifacts/{version}/pin", status=403)
        operator._checked(operator.http.delete(f"/v1/artifacts/{version}"), 403)
        admin.post(f"/v1/artifacts/{version}/pin")
        acts = {"artifact.put", "artifact.pin"}
        found = admin.get("/v1/audit", params={"target": str(ids.parse(version, ids.ARTIFACT))})["items"]
        assert {entry["action"] for entry in found} == acts

    def test_a_viewer_sees_in_events_what_it_sees_of_versions(
        self, make_api: Callable[..., Api], client: Client, api: Api, task: str
    ) -> None:
        """Names, types, hashes and sizes; why somebody deleted one is a text of theirs."""
        version = client.artifacts.put(task, "plan.md", b"x", media_type="text/markdown")["version_id"]
        api._checked(api.http.delete(f"/v1/artifacts/{version}?reason=canary"), 200)
        path, all_of = f"/v1/tasks/{task}/events", {"follow": "false"}
        shown = make_api("acme", "viewer").http.get(path, params=all_of).text
        assert '"name":"plan.md"' in shown
        assert sha(b"x") in shown
        assert "ArtifactDeleted" in shown
        assert "canary" not in shown
        assert "canary" in api.http.get(path, params=all_of).text

    def test_other_tenants_find_nothing(self, client: Client, other: Api, task: str, nobody: Api) -> None:
        """Each route answers as for what never existed."""
        version = client.artifacts.put(task, "x", b"canary")["version_id"]
        for path in (f"/v1/tasks/{task}/artifacts", f"/v1/artifacts/{version}", f"/v1/artifacts/{version}/content"):
            assert other.get(path, 404)["code"] == "E-FIND-01"
            nobody.get(path, 401)
        for act in ("pin", "unpin", "verify"):
            other.post(f"/v1/artifacts/{version}/{act}", status=404)
        other._checked(other.http.delete(f"/v1/artifacts/{version}"), 404)
        other._checked(other.http.post(f"/v1/tasks/{task}/artifacts?name=x", content=b"x"), 404)
        theirs = other.submit("single", {})["task_id"]
        path = f"/v1/tasks/{theirs}/artifacts?name=x&made_from={version}"
        assert other._checked(other.http.post(path, content=b"x"), 404)["code"] == "E-FIND-01"


def test_a_large_value_is_read_like_any_other(api: Api, hand: Hand, objects: Objects) -> None:
    """A result of 9 MiB lies in the store; the answer of the API has it."""
    made = api.submit("single", {})
    (lease,) = hand.lease_of(made)
    hand.leases.objects = objects
    value = "v" * (9 * MIB)
    name = ArtifactDoor(hand.leases, lease, at_once).keep_value(json.dumps(value).encode())
    hand.leases.complete([Done(lease, None, name)], 0)
    assert api.get(f"/v1/tasks/{made['task_id']}/result")["result"] == value


def test_150_mib_in_constant_memory(settings: TaskServiceSettings, api: Api, task: str, tmp_path: Path) -> None:
    """Up and down again, through a service and a client in a process of their own: it grows by a fraction of it."""
    where = [settings.database_url.get_secret_value(), settings.kafka_bootstrap, (tmp_path / "objects").as_uri()]
    process = subprocess.run(
        [sys.executable, str(MEASURED), *where, str(api.key), task, "150"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=MEASURED.parents[3],
        check=False,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    told = json.loads(process.stdout.splitlines()[-1])
    assert told["size"] == 150 * MIB
    assert told["grown_mib"] < 75, told


def test_too_many_at_once_are_told_so(
    url: str,
    api: Api,
    task: str,
    settings: TaskServiceSettings,
    eventually: Callable[..., Any],
    look: psycopg.Connection[Any],
) -> None:
    """With 503, and everything else goes on."""
    place = urlsplit(url)
    open_ones = []
    for _ in range(settings.transfers):
        connection = http.client.HTTPConnection(str(place.hostname), place.port or 0, timeout=20)
        connection.putrequest("POST", f"/v1/tasks/{task}/artifacts?name=slow")
        connection.putheader("Authorization", f"Bearer {api.key}")
        connection.putheader("Content-Length", "5")
        connection.endheaders(b"ab")
        open_ones.append(connection)
    under_way = "SELECT count(*) FROM stanchion.artifact_version JOIN stanchion.artifact USING (artifact_id) WHERE name = 'slow'"
    eventually(lambda: look.execute(under_way).fetchone() == (settings.transfers,), 20)
    refused = api._checked(api.http.post(f"/v1/tasks/{task}/artifacts?name=x", content=b"x"), 503)
    assert refused["code"] == "E-BUSY-01"
    api.get(f"/v1/tasks/{task}")
    for connection in open_ones:
        connection.send(b"cde")
        assert connection.getresponse().status == 201
        connection.close()
    assert len(api.get(f"/v1/tasks/{task}/artifacts")["items"]) == settings.transfers
