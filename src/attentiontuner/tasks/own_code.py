"""Code of people's own, named with `--import`: the tasks and methods it registers."""

import importlib
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.tasks.task import all_tasks, register_task

_imported: list[str] = []


def imported() -> tuple[str, ...]:
    """What was imported so far, for processes that must know it too."""
    return tuple(_imported)


def import_user_code(address: str, said: str | None = None) -> None:
    """Import a module by name, or a .py file by path, named by the user on the command line. A second time is none.

    `said` is what messages call it, where it was not `--import`.
    """
    path = Path(address)
    said = said or f"--import {path}"
    address = str(path.resolve()) if address.endswith(".py") else address
    if address in _imported:
        return
    if address.endswith(".py") and not path.is_file():
        raise UserError(f"{said}: there is no such file")
    before = all_tasks()
    try:
        if address.endswith(".py"):
            _import_file(path)
        else:
            importlib.import_module(address)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{address}.".startswith(f"{error.name}."):
            problem = f"there is no module {error.name!r}; a file is named by its path, which ends in .py"
        else:
            problem = where_and_what(error)
        raise UserError(f"{said}: {problem}") from error
    _imported.append(address)
    # A worker process begins without the import: a task tells it what makes its environment known.
    for name, task in all_tasks().items():
        if task.register is None and before.get(name) is not task:
            register_task(replace(task, register=path.stem if address.endswith(".py") else address))


def _import_file(path: Path) -> None:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
