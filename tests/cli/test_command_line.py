"""What every command shares: `--import`, and errors in it."""

import sys

import pytest

from attentiontuner.cli import main
from tests.cli.command import TOY, assert_refused, run


@pytest.mark.parametrize(
    ("code", "line", "problem"),
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
        ("\nx = 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("import no_such_package\n", 1, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("import numpy\nnumpy.zeros(3).reshape(7)\n", 2, "ValueError: cannot reshape"),
        ("def f():\n    raise KeyError('x')\nf()\n", 2, "KeyError: 'x'"),
        ("from attentiontuner import ObservationSpec\nObservationSpec('grid', (1, 2, 3))\n", 2, "a grid of shape"),
    ],
)
def test_broken_code_of_the_user_is_one_line(tmp_path, monkeypatch, capsys, code, line, problem):
    monkeypatch.setattr("sys.path", [*sys.path])
    path = tmp_path / "broken.py"
    path.write_text(code)
    assert main(["--import", str(path), "tasks"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"attentiontuner: --import {path}: {path}, line {line}: {problem}")
    assert said.count("\n") == 1


def test_the_broken_file_is_named_and_not_the_one_that_imports_it(tmp_path):
    (tmp_path / "helper.py").write_text("x = (\n")
    (tmp_path / "mine.py").write_text("import helper\n")
    done = run("--import", tmp_path / "mine.py", "tasks")
    assert_refused(done, "mine.py: ", f"{tmp_path / 'helper.py'}, line 1: SyntaxError")


def test_what_cannot_be_imported(tmp_path, capsys):
    for words, problem in {
        ("--import", "no_such_module", "tasks"): "there is no module 'no_such_module'; a file is named by its path",
        ("--import", str(tmp_path / "none.py"), "tasks"): "there is no such file",
        ("--import",): "--import needs a module name",
        ("tasks", "--import", "mine.py"): "--import stands before the command",
    }.items():
        assert main(words) == 2
        assert problem in capsys.readouterr().err
    assert main([*TOY, "tasks"]) == 0
