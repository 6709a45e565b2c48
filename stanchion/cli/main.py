"""`stanchion`: the entry point, and the one place where an error becomes a text and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from stanchion.cli import exit_codes
from stanchion.cli.command import Group
from stanchion.cli.ink import visible
from stanchion.cli.session import Session
from stanchion.cli.tree import TREE
from stanchion.errors import StanchionError

_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
_EPILOG = (
    "stdout is data, stderr is talk. Every command takes --json, --jsonl, --quiet and --color. "
    "An id may be cut short where it stays unique; @last is the task that you submitted last."
)


def root() -> Group:
    """The whole command, lazy below the first level."""
    group = Group("stanchion", TREE, epilog=_EPILOG)
    group.params.append(
        click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Version.")
    )
    return group


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line of this process and end it with the exit code."""
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    _open_streams()
    session = Session()
    try:
        answer = root().main(list(argv), prog_name="stanchion", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(f"{visible(error.format_message())}\n")
        return exit_codes.BAD_USAGE
    except click.UsageError as error:
        return _usage(error, session)
    except click.ClickException as error:
        return _told(exit_codes.USAGE, error.format_message(), session, exit_codes.FAILED)
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return exit_codes.INTERRUPTED
    except StanchionError as error:
        return _failed(error, session)
    except BrokenPipeError:
        return _read_enough()
    except SystemExit:
        # click takes a pipe that was closed for a failure of the command
        if "Pacify" not in type(sys.stdout).__name__:
            raise
        return _read_enough()
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            return _unexpected(error, session)
        sys.stderr.write(f"the output can't be written: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.FAILED
    except Exception as error:  # noqa: BLE001 - the top of the program
        return _unexpected(error, session)
    return answer if isinstance(answer, int) else exit_codes.DONE


def _open_streams() -> None:
    """A stream that whoever started this has closed is an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives


def _read_enough() -> int:
    """Whoever reads has had enough (head): nobody must complain about it, the interpreter at its end neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout = sys.__stdout__ or sys.stdout
    return exit_codes.DONE


def _usage(error: click.UsageError, session: Session) -> int:
    where = error.ctx.command_path if error.ctx else "stanchion"
    fix = f"{where} --help"
    return _told(exit_codes.USAGE, error.format_message(), session, exit_codes.BAD_USAGE, fix=fix)


def _told(code: str, what: str, session: Session, status: int, fix: str | None = None) -> int:
    from stanchion.cli.errors_text import tell

    tell(StanchionError(code, what, fix=fix), session)
    return status


def _failed(error: StanchionError, session: Session) -> int:
    from stanchion.cli.errors_text import tell

    if session.debug:
        import traceback

        traceback.print_exception(error)
    tell(error, session)
    return exit_codes.of_error(error)


def _unexpected(error: Exception, session: Session) -> int:
    from stanchion.cli.errors_text import tell

    if session.debug:
        import traceback

        traceback.print_exception(error)
    fix = None if session.debug else "run it again with --debug, and report what it shows"
    tell(StanchionError("E-BUG-01", f"{type(error).__name__}: {error}", fix=fix), session)
    return exit_codes.FAILED


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"stanchion {version('stanchion')}")
        ctx.exit()


if __name__ == "__main__":
    main()
