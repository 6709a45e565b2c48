"""The parts of the embedded servers that need no server."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from stanchion.embedded import EmbeddedError, EmbeddedServers, Endpoints, Overrides
from stanchion.embedded.apache_settings import Plan, container_environment, server_properties
from stanchion.embedded.handle import External
from stanchion.embedded.kafka_probe import Cluster, parse_answer, request_bytes
from stanchion.embedded.leftovers import refuse_foreign_content, remove_all
from stanchion.embedded.postgres import server_settings
from stanchion.embedded.postgres_home import outside_folder
from stanchion.embedded.processes import ProcessRecord, Stage
from stanchion.embedded.state import StateFile
from stanchion.embedded.together import run_together
from stanchion.embedded.wheels import executable, package_folder


def text(value: str | None) -> bytes:
    """A nullable text of Kafka's protocol."""
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value)) + value.encode()


def answer(brokers: dict[int, tuple[str, int]], cluster_id: str | None, correlation: int = 1) -> bytes:
    """A Metadata answer, version 4, as far as the probe reads it."""
    body = struct.pack(">iii", correlation, 0, len(brokers))
    for node, (host, port) in brokers.items():
        body += struct.pack(">i", node) + text(host) + struct.pack(">i", port) + text(None)
    return body + text(cluster_id) + struct.pack(">ii", 1, 0)


def test_the_probe_reads_brokers_and_cluster_id() -> None:
    """Every broker of the answer appears by its id, with the address that it advertises."""
    payload = answer({1: ("127.0.0.1", 9001), 3: ("127.0.0.1", 9003)}, "abc")
    assert parse_answer(payload) == Cluster("abc", {1: "127.0.0.1:9001", 3: "127.0.0.1:9003"})


def test_the_probe_accepts_a_cluster_without_id() -> None:
    """A broker that keeps no cluster id says null."""
    assert parse_answer(answer({}, None)) == Cluster(None, {})


@pytest.mark.parametrize("cut", [0, 3, 9, 15, 20])
def test_the_probe_refuses_half_an_answer(cut: int) -> None:
    """A cut answer is an error, never a smaller cluster."""
    with pytest.raises((ValueError, struct.error)):
        parse_answer(answer({1: ("127.0.0.1", 9001)}, "abc")[:cut])


def test_the_probe_refuses_another_requests_answer() -> None:
    """Another program on the port that happens to answer is not our broker."""
    with pytest.raises(ValueError, match="another request"):
        parse_answer(answer({}, "abc", correlation=7))


def test_the_probes_request_names_no_topic() -> None:
    """Naming one would create it on a broker that creates topics by itself."""
    request = request_bytes()
    assert struct.unpack(">i", request[:4])[0] == len(request) - 4
    assert request.endswith(struct.pack(">ib", 0, 0))


def test_the_variables_replace_servers_one_by_one() -> None:
    """An empty variable counts as not set."""
    found = Overrides.from_environment({"STANCHION_DATABASE_URL": "postgresql://db/x", "STANCHION_REDIS_URL": ""})
    assert found == Overrides(database_url="postgresql://db/x")


def test_endpoints_become_the_environment_of_children() -> None:
    """The names are those that every service reads."""
    endpoints = Endpoints("postgresql://h/d", "h:1", "redis://h:2/0")
    assert Overrides.from_environment(endpoints.as_environment()) == Overrides(**endpoints.as_dict())


def test_three_real_servers_need_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all three variables set, nothing is started and not even a folder is made."""
    endpoints = Endpoints("postgresql://h/d", "h:1", "redis://h:2/0")
    for name, value in endpoints.as_environment().items():
        monkeypatch.setenv(name, value)
    servers = EmbeddedServers(tmp_path / "root")
    assert servers.start() == endpoints
    servers.stop()
    assert not (tmp_path / "root").exists()


def test_a_real_server_is_not_ours_to_kill() -> None:
    """A fault test against a real server gets an error that names the variable."""
    external = External("redis://h:2/0", "STANCHION_REDIS_URL")
    with pytest.raises(EmbeddedError, match="STANCHION_REDIS_URL") as caught:
        external.kill()
    assert caught.value.code == "E-SERVER-07"


def test_the_state_file_gives_back_what_was_recorded(tmp_path: Path) -> None:
    """Also from another process: everything stands in the file; the newest process of a name counts."""
    state = StateFile(tmp_path)
    state.begin("run", ephemeral=True)
    first = ProcessRecord("valkey", 10, "boot:1", "/bin/valkey-server", (Stage(15, 2.0),))
    second = ProcessRecord("valkey", 11, "boot:2", "/bin/valkey-server", (Stage(15, 2.0),))
    state.record(first)
    state.record(second)
    state.publish({"redis_url": "redis://h:2/0"})
    found = StateFile(tmp_path).read()
    assert found is not None
    assert (found.run_id, found.ephemeral, found.processes) == ("run", True, [second])
    assert found.endpoints == {"redis_url": "redis://h:2/0"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run_id": "x"}', '{"run_id": 1, "ephemeral": 0, "processes": 7}'])
def test_a_damaged_state_file_is_no_state(tmp_path: Path, content: str) -> None:
    """A half-written or foreign file must not keep the servers from starting."""
    (tmp_path / "servers.json").write_text(content)
    assert StateFile(tmp_path).read() is None


def test_an_ephemeral_root_must_hold_nothing_else(tmp_path: Path) -> None:
    """It is removed at the end: a user's own folder must not be given by mistake."""
    (tmp_path / "thesis.md").write_text("years of work")
    with pytest.raises(EmbeddedError, match=r"thesis\.md") as caught:
        refuse_foreign_content(tmp_path)
    assert caught.value.code == "E-SERVER-06"


def test_removal_leaves_what_is_not_ours(tmp_path: Path) -> None:
    """Only the folders that the servers made go; the root stays while it holds something."""
    (tmp_path / "postgres").mkdir()
    (tmp_path / "demo").mkdir()
    remove_all(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo"]


def test_two_roots_have_two_folders_outside(tmp_path: Path) -> None:
    """Two checkouts, and two roots in one, never share data."""
    assert outside_folder(tmp_path / "a") != outside_folder(tmp_path / "b")
    assert outside_folder(tmp_path / "a") == outside_folder(tmp_path / "b" / ".." / "a")


def test_a_binary_without_its_mode_is_copied(tmp_path: Path) -> None:
    """Some installers lose the mode; the copy goes under the root, not to the home folder."""
    binary = tmp_path / "server"
    binary.write_bytes(b"#!/bin/sh\n")
    binary.chmod(0o644)
    cache = tmp_path / "cache"
    cache.mkdir()
    copy = executable(binary, cache)
    assert copy.parent == cache
    assert copy.stat().st_mode & 0o111
    assert executable(binary, cache) == copy


def test_a_missing_package_says_what_to_install() -> None:
    """The plain installation has no servers in it."""
    with pytest.raises(EmbeddedError, match=r"stanchion\[embedded\]") as caught:
        package_folder("no_such_module_anywhere", "no-such-package")
    assert caught.value.code == "E-SERVER-03"


def test_commits_are_durable_unless_a_test_says_otherwise() -> None:
    """`fsync` is on by default; a commit waits for its WAL either way."""
    assert server_settings(fsync=True)["fsync"] == "on"
    assert server_settings(fsync=False)["fsync"] == "off"
    assert server_settings(fsync=False)["synchronous_commit"] == "on"


def test_nodes_of_a_cluster_agree_on_their_voters(tmp_path: Path) -> None:
    """Every node names all controllers, and asks for two replicas in sync of three."""
    plan = Plan(tmp_path, tmp_path, 3, "id", tmp_path, {1: 11, 2: 12, 3: 13}, {1: 21, 2: 22, 3: 23})
    for node in (1, 2, 3):
        lines = server_properties(plan, node).splitlines()
        assert "controller.quorum.voters=1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23" in lines
        assert f"advertised.listeners=PLAINTEXT://127.0.0.1:{10 + node}" in lines
        assert "min.insync.replicas=2" in lines


def test_the_container_has_the_same_policy_as_one_node() -> None:
    """Names become variables as the image expects them."""
    environment = container_environment("localhost", 9999)
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://localhost:9999"
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_first_failure_of_actions_side_by_side_is_raised() -> None:
    """All have ended by then, also those that worked."""
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_together([lambda: done.append(1), fail, lambda: done.append(2)])
    assert sorted(done) == [1, 2]
