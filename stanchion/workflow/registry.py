"""Finds workflows by what a person types: `package.module:attribute`, `package.module`, or `path/to/file.py`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from stanchion.errors import Rejected, StanchionError
from stanchion.workflow.definition import Workflow
from stanchion.workflow.faults import closest, refusal

__all__ = ["load"]


def load(target: str) -> list[Workflow]:
    """The workflows that `target` names, checked as a whole, in order of definition.

    A module or file gives all that it holds; an attribute may be a workflow, or a list or tuple of them. The working
    directory, or the folder of the file, is put on the path for imports. Raises Rejected E-LOAD-01 for what can't be
    imported, E-LOAD-02 for what is no workflow, and the errors of the definitions.
    """
    place, _, attribute = _split(target)
    if place.endswith(".py") or os.sep in place:
        module = _from_file(Path(place), target)
    elif place and all(part.isidentifier() for part in place.split(".")):
        module = _from_name(place, target)
    else:
        raise _not_found(target, f"{target!r} is neither a module nor a file")
    found = _picked(module, attribute, target) if attribute else _held(module)
    if not found:
        raise refusal(
            "E-LOAD-02", f"{place} holds no workflow", target, fix="brief = Workflow('brief') at its top level"
        )
    _check_unique(found)
    for workflow in found:
        workflow.graph()
    return found


def _split(target: str) -> tuple[str, str, str]:
    # A colon may also belong to the drive of a path: only what stands behind .py or a module's name is an attribute.
    place, colon, attribute = target.strip().rpartition(":")
    if not colon or "/" in attribute or "\\" in attribute:
        return target.strip(), "", ""
    return place, colon, attribute


def _not_found(target: str, why: str) -> Rejected:
    return refusal(
        "E-LOAD-01",
        f"{target!r} can't be imported",
        target,
        why=why,
        fix="package.module:attribute, package.module, or path/to/file.py, seen from the working directory",
    )


def _from_name(name: str, target: str) -> ModuleType:
    _put_on_path(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _not_found(target, f"there is no module {error.name}") from None
        raise _broken(target, error) from error
    except StanchionError:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(target, error) from error


def _from_file(path: Path, target: str) -> ModuleType:
    file = path.resolve()
    if not file.is_file():
        raise _not_found(target, f"there is no file {path}")
    root, name = file.parent, file.stem
    while (root / "__init__.py").is_file():  # inside a package its relative imports must work
        root, name = root.parent, f"{root.name}.{name}"
    _put_on_path(str(root))
    if root != file.parent:
        return _from_name(name.removesuffix(".__init__"), target)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None or not name.isidentifier() or _origin(name) != str(file):
        plain = re.sub(r"\W", "_", name)
        name = f"{plain}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"  # must not take a library's name
    return _executed(name, file, target)


def _origin(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else str(Path(spec.origin).resolve())


def _executed(name: str, file: Path, target: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _not_found(target, f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception | SystemExit) and not isinstance(error, StanchionError):
            raise _broken(target, error) from error
        raise
    return module


def _put_on_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _broken(target: str, error: BaseException) -> Rejected:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    at = next((frame for frame in reversed(frames) if frame.filename != __file__), None)
    where = f"{at.filename}:{at.lineno}  {at.line or ''}".rstrip() if at else target
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}  {(error.text or '').strip()}".rstrip()
    return refusal(
        "E-LOAD-01",
        f"{target!r} failed while it was imported",
        where,
        why=f"{type(error).__name__}: {error}",
        fix="make the module importable by itself: python -c 'import …'",
    )


def _held(module: ModuleType) -> list[Workflow]:
    unique = {id(value): value for value in vars(module).values() if isinstance(value, Workflow)}
    return list(unique.values())


def _picked(module: ModuleType, attribute: str, target: str) -> list[Workflow]:
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = [name for name, held in vars(module).items() if isinstance(held, Workflow)]
            meant = closest(part, known)
            raise refusal(
                "E-LOAD-02",
                f"{module.__name__} has no {attribute}",
                target,
                fix=f"did you mean {meant}?" if meant else f"its workflows are: {', '.join(known) or 'none'}",
            )
        value = getattr(value, part)
    found = list(value) if isinstance(value, list | tuple) else [value]
    for one in found:
        if not isinstance(one, Workflow):
            raise refusal(
                "E-LOAD-02",
                f"{attribute} of {module.__name__} is no workflow but {type(one).__name__}",
                target,
                fix="name a Workflow, or a list of them",
            )
    return found


def _check_unique(found: list[Workflow]) -> None:
    seen: dict[tuple[str, int], Workflow] = {}
    for workflow in found:
        other = seen.setdefault((workflow.name, workflow.version), workflow)
        if other is not workflow:
            raise refusal(
                "E-LOAD-02",
                f"{workflow.name} v{workflow.version} is defined twice",
                str(workflow.where),
                why=f"the other stands at {other.where}",
                fix="give one of them another name or version",
            )
