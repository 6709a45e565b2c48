"""Where the command line finds the API and its key."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stanchion.cli.connections import Connections
from stanchion.cli.session import Session
from stanchion.errors import Unavailable, Unprocessable

NOBODY = 2**22 + 1  # above the highest process id of a default kernel


def stack_in(folder: Path, *, pid: int, url: str = "http://127.0.0.1:7001") -> None:
    root = folder / ".stanchion" / "dev"
    root.mkdir(parents=True)
    (root / "endpoints.json").write_text(json.dumps({"pid": pid, "api_url": url, "tenant": "dev"}))
    (root / "dev-key").write_text("stn_stack\n")


def found(folder: Path, environ: dict[str, str] | None = None, **flags: str) -> Connections:
    given = {"STANCHION_HOME": str(folder / "nobody"), **(environ or {})}
    return Connections(Session(**flags), folder, given)  # type: ignore[arg-type]  # texts only


def test_a_running_stack_is_found_from_below(tmp_path: Path) -> None:
    """Any folder inside the project sees the stack of the project, with its key."""
    stack_in(tmp_path, pid=os.getpid())
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    here = found(below)
    assert here.api_url == "http://127.0.0.1:7001"
    assert here.api_key == "stn_stack"


def test_the_file_of_a_dead_stack_counts_for_nothing(tmp_path: Path) -> None:
    """A stack that was killed leaves its file; its address may be anybody's by now."""
    stack_in(tmp_path, pid=NOBODY)
    with pytest.raises(Unavailable, match="nothing says where the API is"):
        _ = found(tmp_path).api_url


def test_the_order_is_flag_environment_project_profile_stack(tmp_path: Path) -> None:
    """Each place wins over all that come after it."""
    stack_in(tmp_path, pid=os.getpid())
    home = tmp_path / "home"
    home.mkdir()
    environ = {"STANCHION_HOME": str(home)}
    assert found(tmp_path, environ).api_url == "http://127.0.0.1:7001"
    (home / "config.toml").write_text('api_url = "http://profile"')
    assert found(tmp_path, environ).api_url == "http://profile"
    (tmp_path / "stanchion.toml").write_text('api_url = "http://project"')
    assert found(tmp_path, environ).api_url == "http://project"
    environ["STANCHION_API_URL"] = "http://environment"
    assert found(tmp_path, environ).api_url == "http://environment"
    assert found(tmp_path, environ, api_url="http://flag").api_url == "http://flag"
    assert found(tmp_path, environ, api_url="http://flag").find("api_url").origin == "flag"  # type: ignore[union-attr]  # it is there


def test_the_key_of_a_stack_is_shown_to_that_stack_alone(tmp_path: Path) -> None:
    """An address from elsewhere does not get the key of what happens to run in this folder."""
    stack_in(tmp_path, pid=os.getpid())
    assert found(tmp_path, api_url="http://elsewhere").api_key is None
    assert found(tmp_path, api_url="http://127.0.0.1:7001").api_key == "stn_stack"
    assert found(tmp_path, {"STANCHION_API_KEY": "stn_mine"}, api_url="http://elsewhere").api_key == "stn_mine"


def test_the_key_of_a_profile_is_shown_where_the_profile_says(tmp_path: Path) -> None:
    """A file in a working directory can't have it sent elsewhere; a profile that is asked for goes before that file."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        'api_url = "http://prod"\napi_key = "stn_prod"\n[profiles.two]\napi_url = "http://two"\napi_key = "stn_two"\n'
    )
    environ = {"STANCHION_HOME": str(home)}
    assert found(tmp_path, environ).api_key == "stn_prod"
    (tmp_path / "stanchion.toml").write_text('api_url = "http://stranger"')
    assert (found(tmp_path, environ).api_url, found(tmp_path, environ).api_key) == ("http://stranger", None)
    two = found(tmp_path, environ, profile="two")
    assert (two.api_url, two.api_key) == ("http://two", "stn_two")
    (home / "config.toml").write_text('api_key = "stn_any"')
    assert found(tmp_path, environ).api_key == "stn_any"  # beside no address: for whatever is used


@pytest.mark.parametrize("text", ["api_key = 5", "profiles = 5", 'profiles = ["a"]', "profiles = {a = 5}"])
def test_settings_of_the_wrong_kind_are_told(tmp_path: Path, text: str) -> None:
    """And not left out without a word."""
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(Unprocessable, match="E-CONF-01"):
        _ = found(
            tmp_path, {"STANCHION_HOME": str(tmp_path)}, **({"profile": "a"} if "profiles" in text else {})
        ).api_key


def test_a_profile_is_a_table_of_the_profile_file(tmp_path: Path) -> None:
    """--profile takes its table; one that is not there is an error that names those that are."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('api_url = "http://a"\n[profiles.prod]\napi_url = "http://b"\n')
    environ = {"STANCHION_HOME": str(home)}
    assert found(tmp_path, environ, profile="prod").api_url == "http://b"
    with pytest.raises(Unprocessable) as refused:
        _ = found(tmp_path, environ, profile="stage").api_url
    assert refused.value.fix == "one of prod"


@pytest.mark.parametrize("text", ["api_url = ", 'api_urls = "x"'])
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str) -> None:
    """A misspelt setting is not passed over in silence."""
    (tmp_path / "stanchion.toml").write_text(text)
    with pytest.raises(Unprocessable) as refused:
        _ = found(tmp_path).api_url
    assert refused.value.where == str(tmp_path / "stanchion.toml")
