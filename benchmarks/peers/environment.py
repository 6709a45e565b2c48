"""Peers and their environments: made by uv once, kept under `.stanchion/bench/peers/<name>`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_MAKE_SECONDS: Final = 120.0
_INSTALL_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A system under comparison: what it needs installed, which script drives it, and how it is set."""

    name: str
    requirements: tuple[str, ...]
    of: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """Several settings of one peer share its script and its environment."""
        return self.of or self.name

    @property
    def script(self) -> Path:
        """The driver script; it runs with the peer's own interpreter."""
        return Path(__file__).with_name(f"{self.package}_peer.py")


_PGQUEUER = ("pgqueuer[asyncpg]==1.6.0", "uvloop")
PEERS: Final = (
    # At its best: batches of 100 and no limit to how many jobs run at once. 25 drains half as fast, 200 no faster.
    Peer("pgqueuer", _PGQUEUER, settings={"PEER_BATCH": "100"}),
    # With eight slots, as all others have: its batches can then be half of that at most.
    Peer("pgqueuer-slots", _PGQUEUER, "pgqueuer", {"PEER_BATCH": "4", "PEER_AT_ONCE": "8"}),
    Peer("celery", ("celery[redis]==5.7.0",)),
    Peer("procrastinate", ("procrastinate==3.10.0", "psycopg[binary,pool]", "uvloop")),
    Peer("dbos", ("dbos==3.4.0", "psycopg[binary]")),
)


def interpreter_for(peer: Peer, root: Path) -> Path:
    """The Python of the peer's environment, made when it is missing or was made for other requirements.

    Raises RuntimeError when uv is missing, subprocess.CalledProcessError or TimeoutExpired when the index fails it.
    """
    home = (root / peer.package).absolute()
    python = home / "bin" / "python"
    stamp = home / "requirements.txt"
    wanted = "\n".join((sys.version, *peer.requirements))
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    if home.exists():
        shutil.rmtree(home)  # half an environment would fail later, in the middle of a measurement
    _uv("venv", "--python", sys.executable, str(home), seconds=_MAKE_SECONDS)
    _uv("pip", "install", "--python", str(python), *peer.requirements, seconds=_INSTALL_SECONDS)
    stamp.write_text(wanted)
    return python


def _uv(*words: str, seconds: float) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise RuntimeError("peers are installed by uv, and there is none: run `make` once, it sets it up")
    # A virtual environment of ours must not be taken for the one to install into.
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run([uv, "--quiet", *words], check=True, timeout=seconds, env=environment)
