"""Peers and their environments: made by uv once, kept under `.stanchion/bench/peers/<name>`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAKE_SECONDS: Final = 120.0
_INSTALL_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A system under comparison: what it needs installed, and which script drives it."""

    name: str
    requirements: tuple[str, ...]

    @property
    def script(self) -> Path:
        """The driver script; it runs with the peer's own interpreter."""
        return Path(__file__).with_name(f"{self.name}_peer.py")


PEERS: Final = (
    Peer("pgqueuer", ("pgqueuer[asyncpg]==1.6.0", "uvloop")),
    Peer("celery", ("celery[redis]==5.7.0",)),
    Peer("procrastinate", ("procrastinate==3.10.0", "psycopg[binary,pool]", "uvloop")),
    Peer("dbos", ("dbos==3.4.0", "psycopg[binary]")),
)


def interpreter_for(peer: Peer, root: Path) -> Path:
    """The Python of the peer's environment, made when it is missing or was made for other requirements.

    Raises RuntimeError when uv is missing, subprocess.CalledProcessError or TimeoutExpired when the index fails it.
    """
    home = (root / peer.name).absolute()
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
