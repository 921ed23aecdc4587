"""`collect`, `inspect`, `tasks` and `doctor` as people run them."""

import errno
import json
import re
import resource
import signal
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from attentiontuner.cli import main
from attentiontuner.cli.doctor import EXTRAS, Machine, core_packages, what_is_slow
from attentiontuner.cli.tasks import written
from attentiontuner.cli.values import parse_settings
from attentiontuner.core.errors import UserError
from attentiontuner.tasks import task as task_table
from attentiontuner.tasks.task import Task, all_tasks, get_task, register_task
from tests.cli.command import TOY, assert_refused, run
from tests.demos.examples import KINDS_OF_ACTIONS, make_writer, parts_demonstrations


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of ten toy episodes in shards of four."""
    out = tmp_path_factory.mktemp("data") / "toy"
    done = run(
        *TOY, "collect", "toy", "--episodes", 10, "--seed", 2, "--out", out, "--shard-episodes", 4, "--workers", 1
    )
    assert done.returncode == 0, done.stderr
    assert "10 episodes of toy, 5.0 steps on average" in done.stdout
    return out


def copy(data: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(data, to / "copy"))


def test_inspect_prints_json(data):
    done = run("inspect", data, "--verify", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = {
        "task": "toy",
        "episodes": 10,
        "mean_length": 5.0,
        "max_length": 5,
        "success_rate": 1.0,
        "annotated_episodes": 10,
        "pairs_per_episode": 1.0,
        "complete": True,
        "verified": True,
        "seed": 2,
    }
    assert {key: found[key] for key in expected} == expected
    assert found["bytes"] > 0
    assert set(found["annotators"]) == {"expert", "second"}


def test_inspect_prints_a_table_and_draws(data, tmp_path):
    done = run("inspect", data, "--picture", tmp_path / "e.png", "--episode", 3, "--annotator", "second")
    assert done.returncode == 0, done.stderr
    for text in ("toy (length=5)", "annotator expert", "10 episodes, 1.0 pairs each", "5.0 steps on average", "e.png"):
        assert text in done.stdout
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")


def test_settings_reach_the_environment(tmp_path):
    out = tmp_path / "d"
    words = [*TOY, "collect", "toy", "--episodes", 3, "--out", out, "--workers", 1]
    assert run(*words, "--set", "length=9").returncode == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"] == {"length": 9}
    assert manifest["shards"][0]["lengths"] == [9, 9, 9]
    assert_refused(run(*words, "--set", "length=8"), "holds settings {'length': 9}, not {'length': 8}")


def test_setting_values_are_json_scalars_or_text():
    words = ("a=30", "b=0.2", "c=true", "d=null", "e=north", 'f="7"', "g=")
    assert parse_settings(words) == {"a": 30, "b": 0.2, "c": True, "d": None, "e": "north", "f": "7", "g": ""}
    assert parse_settings(("a=True", "b=FALSE", "c=falsely")) == {"a": True, "b": False, "c": "falsely"}
    for bad in ("length", "=3", "a=[1]", "a={}"):
        with pytest.raises(UserError, match="--set"):
            parse_settings((bad,))


def test_tasks_lists_everything():
    done = run(*TOY, "tasks")
    assert done.returncode == 0, done.stderr
    for name in ("hallway", "ordering", "counting", "toy"):
        assert name in done.stdout
    rows = {row["name"]: row for row in json.loads(run(*TOY, "tasks", "--json").stdout)}
    assert rows["hallway"]["horizon"] == 145
    assert rows["toy"]["expert"] is True
    assert rows["toy"]["observation"] == {"kind": "grid", "shape": [2, 2, 1], "symbols": [5]}


def test_tasks_tells_everything_about_one(capsys):
    assert main(["tasks", "hallway"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in ("Look at the object in the first room", "left, right, forward", "length=30", "LTMB-Hallway-v0"):
        assert part in told
    assert main(["tasks", "hallway", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"length": 30}
    assert main(["tasks", "halway"]) == 2
    assert "did you mean hallway?" in capsys.readouterr().err


def test_tasks_names_the_command_for_a_missing_package(tmp_path):
    code = """
from dataclasses import replace
from attentiontuner import register_task
from tests.toy_task import TOY
register_task(replace(TOY, name="far", needs=("no_such_package", "pip install no-such-package")))
"""
    (tmp_path / "far.py").write_text(code)
    assert "far is not installed: pip install no-such-package" in run("--import", tmp_path / "far.py", "tasks").stdout
    done = run("--import", tmp_path / "far.py", "collect", "far", "--out", tmp_path / "d")
    assert_refused(done, "needs the package 'no_such_package'", "pip install no-such-package")


def test_every_setting_that_an_environment_takes_is_listed_as_it_is_written(capsys):
    assert main(["tasks", "hallway"]) == 0
    assert "length=30, tile_size=12" in capsys.readouterr().out
    assert main(["tasks", "minigrid-memory-s7"]) == 0
    assert "size=7, random_length=false, max_steps=null" in capsys.readouterr().out
    for task in all_tasks().values():
        assert task.settings.items() <= task.all_settings().items()
        listed = [f"{name}={written(value)}" for name, value in task.all_settings().items()]
        assert parse_settings(listed) == task.all_settings()
    assert replace(get_task("hallway"), needs=("no_such_package", "")).all_settings() == {"length": 30}
    assert replace(get_task("hallway"), env_id=None).all_settings() == {"length": 30}


def test_doctor_names_device_and_packages():
    done = run("doctor")
    assert done.returncode == 0, done.stderr
    assert "precision" in done.stdout
    for package in ("torch", "zstandard", "memory-gym", "fastapi (extra studio)", "chromium"):
        assert package in done.stdout
    assert {"numpy", "torch", "minigrid", "zstandard"} <= set(core_packages())


def test_doctor_knows_every_extra_that_a_user_may_want():
    said = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {extra: tuple(line.split(">")[0] for line in lines) for extra, lines in said.items()}
    assert {**EXTRAS, "docs": wanted["docs"], "dev": wanted["dev"]} == wanted


def test_doctor_marks_what_is_there_in_colour_where_there_is_a_terminal(monkeypatch, capsys):
    import attentiontuner.cli.doctor as module

    found = [module.Finding("ray [extra]", False, "no [red] one", "mend"), module.Finding("numpy", True, "2.0")]
    monkeypatch.setattr(module, "examine", lambda: found)
    module.doctor()
    in_a_pipe = capsys.readouterr().out
    assert re.search(r"ray \[extra\]\W+missing\W+no \[red\] one\W+numpy\W+ok\W+2.0", in_a_pipe)
    assert "\x1b" not in in_a_pipe
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    module.doctor()
    in_a_terminal = capsys.readouterr().out
    assert "\x1b[33mmissing\x1b[0m" in in_a_terminal
    assert re.search(r"\x1b\[32mok *\x1b\[0m", in_a_terminal)


def test_doctor_says_how_to_mend(monkeypatch, capsys):
    from importlib.metadata import PackageNotFoundError

    import attentiontuner.cli.doctor as module

    real = module.version

    def version(name: str) -> str:
        if name in ("ray", "memory-gym", "zstandard"):
            raise PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(module, "version", version)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "machine", lambda: FAST._replace(load=20.0))
    assert module.doctor() == 2, "zstandard belongs to the core"
    printed = capsys.readouterr()
    for command in (
        "pip install 'attentiontuner[ray]'",
        module.MEMORY_GYM,
        "apt-get install chromium",
        "slow: everything",
    ):
        assert command in printed.out
    assert printed.err == "attentiontuner: zstandard: not installed; mend it with: pip install zstandard\n"


FAST = Machine("used", "", cores=8, threads=8, load=0.5)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        ({"gpu": "none"}, ["no GPU: a step of methods attentiontuner"]),
        ({"gpu": "torch without CUDA"}, ["install one made for CUDA", "no GPU"]),
        ({"gpu": "no driver"}, ["update the driver", "no GPU"]),
        ({"no_kernels": "Triton is not installed"}, ["want of kernels: Triton is not installed"]),
        ({"gpu": "none", "threads": 1}, ["no GPU", "1 thread on 8 cores: OMP_NUM_THREADS=1 is set: unset it"]),
        ({"threads": 1}, []),
        ({"threads": 64}, ["64 threads on 8 cores: they wait for each other: set OMP_NUM_THREADS=8"]),
        ({"cores": 1, "threads": 1}, ["collect and evaluate"]),
        ({"load": 20.0}, ["other programs keep the 8 cores busy (load 20.0)"]),
    ],
)
def test_doctor_says_what_will_be_slow_and_why(monkeypatch, changes, lines):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    said = what_is_slow(FAST._replace(**changes))
    assert len(said) == len(lines)
    for line, part in zip(said, lines, strict=True):
        assert part in line


def test_parts_and_other_actions_are_described(tmp_path, capsys):
    actions = KINDS_OF_ACTIONS[1]
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    assert main(["inspect", str(tmp_path / "d"), "--verify", "--picture", str(tmp_path / "e.png")]) in (0, None)
    said = " ".join(capsys.readouterr().out.split())
    for words in ("view grid 2×2×1, camera image 4×6×1, arm vector 3", "choices 3×2", "every shard and annotation"):
        assert words in said
    try:
        register_task(Task(name="wide", title="Wide", observation=spec, actions=actions, horizon=5))
        assert main(["tasks"]) in (0, None)
    finally:
        task_table._TASKS.pop("wide")
    assert "choices" in capsys.readouterr().out


def test_unknown_task(tmp_path):
    assert_refused(run("collect", "halway", "--out", tmp_path / "d"), "unknown task 'halway'", "mean hallway?")
    assert not (tmp_path / "d").exists()


def test_settings_the_environment_refuses(tmp_path):
    done = run("collect", "hallway", "--out", tmp_path / "d", "--set", "length=0")
    assert_refused(done, "length")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("task", "setting", "reason"),
    [
        ("hallway", "width", "there is no setting 'width'; it takes length, tile_size"),
        ("counting", "lenght", "there is no setting 'lenght'; it takes length, test_freq, empty_freq, modulus"),
        ("toy", "speed", "there is no setting 'speed'; it takes length"),
    ],
)
def test_an_unknown_setting_is_named_with_those_that_exist(tmp_path, capsys, task, setting, reason):
    assert main([*TOY, "collect", task, "--out", str(tmp_path / "d"), "--set", f"{setting}=3"]) == 2
    assert capsys.readouterr().err == f"attentiontuner: task {task!r} does not take these settings: {reason}\n"


def test_missing_folder_and_foreign_folder(tmp_path):
    assert_refused(run("inspect", tmp_path / "none"), "none does not exist")
    (tmp_path / "file").touch()
    assert_refused(run("inspect", tmp_path / "file"), "file is not a folder")
    assert_refused(run("inspect", tmp_path), "is not a data set: it has no manifest.json")
    (tmp_path / "file").write_text("")
    assert_refused(run(*TOY, "collect", "toy", "--out", tmp_path / "file" / "d"), "cannot make the folder")
    assert_refused(run(*TOY, "collect", "toy", "--out", tmp_path), "holds other things")


@pytest.mark.parametrize(
    "file", ["lerobot.json", "studio/review.json", "studio/remarks/ada.json", "studio/accepted/bot.json"]
)
def test_verify_reads_what_lies_beside_too(data, tmp_path, file, capsys):
    root = copy(data, tmp_path)
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text("{")
    assert main(["inspect", str(root), "--verify"]) == 2
    assert f"{file} is damaged" in capsys.readouterr().err


def test_verify_reads_shards_after_a_gap(data, tmp_path, capsys):
    """Of a collection that was cut off: they count once the gap is filled."""
    root = copy(data, tmp_path)
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["shards"] = manifest["shards"][1:]
    del manifest["seal"]
    (root / "manifest.json").write_text(json.dumps(manifest))
    assert main(["inspect", str(root), "--verify"]) in (0, None)
    path = root / "shards" / "00001.safetensors.zst"
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["inspect", str(root), "--verify"]) == 2
    assert "00001.safetensors.zst is damaged" in capsys.readouterr().err


def test_damaged_shard(data, tmp_path):
    root = copy(data, tmp_path)
    path = root / "shards" / "00001.safetensors.zst"
    content = path.read_bytes()
    path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    assert run("inspect", root).returncode == 0, "the manifest alone is sound"
    assert_refused(run("inspect", root, "--verify"), "00001.safetensors.zst is damaged")
    done = run("inspect", root, "--picture", tmp_path / "e.png", "--episode", 5)
    assert_refused(done, "00001.safetensors.zst is damaged")
    path.unlink()
    done = run(*TOY, "collect", "toy", "--episodes", 10, "--seed", 2, "--out", root)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == content


def test_wrong_schema_version(data, tmp_path):
    root = copy(data, tmp_path)
    manifest = root / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 2'))
    assert_refused(run("inspect", root), "schema version 2", "reads version 1")


def test_a_pair_that_looks_ahead(data, tmp_path):
    root = copy(data, tmp_path)
    path = root / "annotations" / "expert" / "00000.jsonl"
    path.write_text(path.read_text().replace('{"4": "0"}', '{"3": "4"}', 1))
    assert_refused(run("inspect", root), "00000.jsonl, line 1", "pair (4, 3): p must be before q")


def test_unknown_annotator_and_episode(data, tmp_path):
    assert_refused(run("inspect", data, "--annotator", "bob"), "no annotator 'bob': there are expert, second")
    done = run("inspect", data, "--picture", tmp_path / "e.png", "--episode", 10)
    assert_refused(done, "--episode 10: the data set holds 10 episodes")


def test_merge_makes_an_annotator_that_inspect_shows(data, tmp_path, capsys):
    root = str(copy(data, tmp_path))
    words = ["merge", root, "--annotators", "expert,second", "--as", "both"]
    assert main(words) == 0
    said = "annotator both has 10 episodes with 10 pairs (union of expert,second)"
    assert f"{said}; 10 written" in capsys.readouterr().out
    assert main(words) == 0
    assert f"{said}; nothing to do" in capsys.readouterr().out
    assert main(["inspect", root, "--json", "--annotator", "both,second"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["annotator"], found["annotated_episodes"]) == ("both,second", 10)
    assert found["annotators"]["both"]["pairs_per_episode"] == 1.0
    assert main(["inspect", root, "--annotator", "both,second"]) == 0
    shown = capsys.readouterr().out
    assert all(f"annotator {name} " in shown for name in ("expert", "second", "both", "both,second"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--annotators", "expert,eve", "--as", "both"], "no annotator 'eve': there are expert, second"),
        (["--annotators", "expert,second", "--as", "second"], "'second' is one of those to be merged"),
        (["--annotators", "expert,second", "--as", "a,b"], "annotator 'a,b': use letters, digits"),
        (["--annotators", "expert,second", "--as", "both", "--rule", "most"], "no rule 'most': merge by union, maj"),
    ],
)
def test_what_merge_refuses_is_one_line(data, capsys, words, problem):
    assert main(["merge", str(data), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attentiontuner: ")
    assert said.count("\n") == 1
    assert problem in said


def test_merge_needs_a_data_set(tmp_path, capsys):
    assert main(["merge", str(tmp_path), "--annotators", "a,b", "--as", "c"]) == 2
    assert "is not a data set: it has no manifest.json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_no_room_on_the_disk(data, tmp_path):
    """Files may not grow past a limit: what is there stays whole, and with room again the command finishes."""
    root = tmp_path / "d"
    words = [*TOY, "collect", "toy", "--seed", 2, "--out", root, "--workers", 1, "--shard-episodes", 4, "--episodes"]
    assert run(*words, 4).returncode == 0
    before = (root / "shards" / "00000.safetensors.zst").read_bytes()

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (120, 120))

    assert_refused(run(*words, 10, preexec_fn=no_room), "cannot write", "nothing was changed there")
    assert run("inspect", root, "--verify").returncode == 0
    assert (root / "shards" / "00000.safetensors.zst").read_bytes() == before
    assert run(*words, 10).returncode == 0
    for path in data.rglob("*.*"):
        if path.is_file():
            assert (root / path.relative_to(data)).read_bytes() == path.read_bytes(), path


def test_a_full_disk_anywhere_is_one_line(monkeypatch, capsys):
    def full(verb, words):
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

    monkeypatch.setattr("attentiontuner.cli.run", full)
    assert main(["train"]) == 2
    assert capsys.readouterr().err.startswith("attentiontuner: no room left on the disk:")
