"""Inside of a folder, and never out of it: each directory on the way is opened from the one above, no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def directory_of(folder: Path, key: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The directory that `key` lies in, open, and its last part: no symbolic link below `folder` leads elsewhere.

    With `make` what is missing is made, and each name on the way is synced. Raises FileNotFoundError, NotADirectoryError.
    """
    *parts, last = key.split("/")
    opened = os.open(folder, DIRECTORY)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=opened)
                os.fsync(opened)
            above, opened = opened, os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(above)
        yield opened, last
    finally:
        os.close(opened)
