"""`attentiontuner train`: what it refuses is one clear line and exit code 2."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from attentiontuner.cli import main
from attentiontuner.cli.train import parse_bytes
from attentiontuner.core.errors import UserError
from attentiontuner.demos import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.runs.run import Run
from attentiontuner.tasks import task as tasks
from attentiontuner.tasks.task import Task, get_task, register_task
from tests.training.toys import toy_store, toy_task

OPTIONS = "--epochs 1 --batch-size 8 --d-model 16 --layers 2 --feedforward 32 --device cpu --labels exact"
SMALL = OPTIONS.split()


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks._TASKS, "toy-grid", toy_task("grid"))
    monkeypatch.setitem(tasks._TASKS, "toy-vector", toy_task("vector"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "toys"
    toy_store(folder)
    return folder


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["train", *map(str, words)]) == 2
    errors = capsys.readouterr().err
    lines = [line for line in errors.splitlines() if not line.startswith("train ")]
    assert len(lines) == 1, errors
    assert lines[0].startswith("attentiontuner: ")
    return lines[0]


def test_it_trains_and_a_finished_run_says_so(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "toy-grid", "--data", str(data), "--out", str(tmp_path / "run"), *SMALL]
    assert main(words) == 0
    assert ": 1 epoch of recall in" in capsys.readouterr().out
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "is finished: 1 epoch of recall in" in said
    assert said.endswith("; nothing to do\n")


@pytest.mark.parametrize(("method", "what"), [("recall", "another --out"), ("attentiontuner", "--epochs 2")])
def test_a_finished_run_that_is_shorter_than_its_recipe_says_what_to_do(
    method: str, what: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["train", "toy-grid", "--data", str(data), "--out", str(tmp_path / "run"), "--method", method]
    words = [word for word in SMALL if word not in ("--epochs", "1")]
    assert main([*short, *words, "--epochs", "1"]) == 0
    assert "recipe" not in capsys.readouterr().out
    assert main([*short, *words]) == 0
    said = capsys.readouterr().out
    assert re.search(rf"is finished: 1 epoch of {method} in .*; the recipe has \d+: for them give {what}\n$", said)


def test_a_data_set_without_its_option_is_told(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, told = ["--out", str(tmp_path / "run")], f"attentiontuner: {data} is a data set: write --data {data}\n"
    for words, said in (
        ([str(data), *out], True),
        ([*out, str(data)], True),
        (["toy-grid", *out], False),
        (["--test-data", str(data), *out], False),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words])
        assert capsys.readouterr().err.endswith(told) == said, words


def test_help_says_which_runs_become_longer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = " ".join(re.sub(r"[│|]", " ", capsys.readouterr().out).split())
    assert "make it longer where the schedule is constant; where it is cosine, as of recall heads, another" in said


def test_it_says_first_what_it_learns_from_and_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = toy_store(tmp_path / "toys")
    lost = store.path / "annotations" / "expert" / "00000.jsonl"
    lost.write_bytes(b"")
    assert main(["train", "--data", str(store.path), "--out", str(tmp_path / "run"), *SMALL]) == 0
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"train toy-grid: \d+ demonstrations, \d+ annotated by expert with \d+ pairs, \d+ to test on", first
    )
    assert second.startswith(f"attentiontuner: {lost} is gone or empty, though there were annotations: restore it")


def test_recordings_need_no_task_declared_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does its name: the data set knows it. To be played it needs an environment, and says so."""
    monkeypatch.delitem(tasks._TASKS, "toy-grid")
    for number, name in enumerate(([], ["toy-grid"])):
        run = tmp_path / f"run{number}"
        assert main(["train", *name, "--data", str(data), "--out", str(run), *SMALL]) == 0
        assert ": 1 epoch of recall in" in capsys.readouterr().out
    assert "task 'toy-grid' has no environment" in refused(
        capsys, "--data", data, "--out", tmp_path / "other", *SMALL, "--eval-every", 1
    )
    assert main(["evaluate", str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "run1 was trained on task 'toy-grid', of which no environment is known here: register one in a file" in line
    assert line.endswith("or ask it step by step from Python, with load_policy")
    assert main(["publish", str(run), "--out", str(tmp_path / "published")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("nothing to record: give away config.json and model.safetensors, which load_policy takes")
    given = tmp_path / "given"
    given.mkdir()
    for name in ("config.json", "model.safetensors"):
        (given / name).write_bytes((run / name).read_bytes())
    for place in (run, given):
        assert load_policy(place, device="cpu").max_steps == DemoStore.open(data).lengths.max()
    assert main(["inspect", str(data), "--verify", "--picture", str(tmp_path / "one.png")]) == 0
    assert (tmp_path / "one.png").is_file()


def test_a_task_that_is_registered_is_found_by_its_data(data: Path) -> None:
    store = DemoStore.open(data)
    found = Task.from_data(store)
    assert found == get_task("toy-grid", store.settings)
    unnamed = replace(found, name="unnamed", actions=len(found.actions.names), settings=store.settings)
    assert unnamed.actions.names == ()
    register_task(replace(unnamed, name="toy-grid"))  # names that one side does not have do not tell them apart
    assert Task.from_data(store).actions.names == ()


def test_a_run_goes_on_with_the_method_it_began_with(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that does not say which, from before there was a choice: the same command goes on."""
    run, paper = tmp_path / "run", ["--method", "attentiontuner"]
    given = ["toy-grid", "--data", data, "--out", run, *SMALL]
    assert main(["train", *map(str, given), *paper, "--budget", "0s"]) == 0
    assert "after 0 of 1 epoch of attentiontuner; the same command goes on" in capsys.readouterr().out
    assert "was made with model.architecture = 'transformer', now it is 'recall'" in refused(
        capsys, *given, "--method", "recall"
    )
    began = json.loads((run / "config.json").read_text())
    assert began["train"].pop("method") == "attentiontuner"
    del began["seal"]
    (run / "config.json").write_text(json.dumps(began))
    assert main(["train", *map(str, given)]) == 0
    assert ": 1 epoch of attentiontuner in" in capsys.readouterr().out
    assert main(["train", *map(str, given), *paper]) == 0
    assert "is finished" in capsys.readouterr().out


def test_a_run_goes_on_with_the_network_and_recipe_it_began_with(data: Path, tmp_path: Path) -> None:
    """Though the recipe would choose others by now, as after a new version, or for more demonstrations."""
    words = ["train", "toy-grid", "--data", str(data), "--out", str(tmp_path / "run"), "--device", "cpu"]
    own = ["--epochs", "2", "--weight-decay", "0.3", "--batch-size", "5", "--d-model", "8", "--model", "sums=3"]
    assert main([*words, *own, "--budget", "0s"]) == 0
    assert main(words) == 0
    config = Run(tmp_path / "run").config()
    assert (config.epochs, config.weight_decay, config.batch_size) == (2, 0.3, 5)
    assert (config.model.d_model, config.model.sums) == (8, 3)
    assert len(Run(tmp_path / "run").metrics()) == 2


def test_help_says_which_method_is_which(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "(recall if not given)" in said
    assert "goes on where it was, with the method, network, recipe and window it began with" in said
    assert "Method recall, the default, is for work of your own and few demonstrations" in said
    assert "Method attentiontuner is the paper's, to the letter" in said


def test_what_is_wrong_is_one_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--data", data, "--out", tmp_path / "run", *SMALL]
    assert "unknown task 'chess'" in refused(capsys, "chess", *given)
    assert "holds demonstrations of 'toy-grid', not of 'toy-vector'" in refused(capsys, "toy-vector", *given)
    assert "there is no head 3:1" in refused(capsys, "toy-grid", *given, "--heads", "3:1")
    assert "unknown method 'best'" in refused(capsys, "toy-grid", *given, "--method", "best")
    assert "leave out --memory-weight" in refused(
        capsys, "toy-grid", *given, "--method", "vanilla", "--memory-weight", "10"
    )
    paper = [*given, "--method", "attentiontuner"]
    assert "network of method 'attentiontuner' has no positions" in refused(
        capsys, "toy-grid", *paper, "--no-positions"
    )
    assert "network of method 'recall' has no embedder" in refused(capsys, "toy-grid", *given, "--embedder", "lookup")
    assert "bfloat16 is for GPUs" in refused(capsys, "toy-grid", *paper, "--precision", "bfloat16")
    assert "no annotator 'eve'" in refused(capsys, "toy-grid", *given, "--annotator", "eve")
    assert "no annotator 'eve'" in refused(capsys, "toy-grid", *given, "--annotator", "expert,eve")
    assert "'expert' is named twice" in refused(capsys, "toy-grid", *given, "--annotator", "expert,expert")
    assert "--memory-limit 'much'" in refused(capsys, "toy-grid", *given, "--memory-limit", "much")
    assert "--demos 999" in refused(capsys, "toy-grid", *given, "--demos", "999")
    missing = ["--data", tmp_path / "nowhere", "--out", tmp_path / "run", *SMALL]
    assert "nowhere does not exist" in refused(capsys, "toy-grid", *missing)
    assert not list(tmp_path.glob("run/state/*"))


@pytest.mark.parametrize("method", ["recall", "vanilla", "slots"])
def test_a_data_set_without_an_episode_is_refused(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a collection leaves it that was stopped before its first shard."""
    toy = toy_task("grid")
    spaces = {"observation": toy.observation, "actions": toy.actions}
    DemoWriter(tmp_path / "d", task=toy.name, settings=dict(toy.settings), seed=1, **spaces)
    said = refused(capsys, "--data", tmp_path / "d", "--out", tmp_path / "run", "--method", method)
    assert said.endswith("d holds no episodes yet: finish `attentiontuner collect`")


def test_data_that_does_not_fit_the_task_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["toy-grid", "--data", data, "--out", tmp_path / "run", *SMALL]
    task = get_task("toy-grid")
    try:
        register_task(replace(task, actions=task.actions.names[::-1]))
        assert "actions a, b, c, d, task 'toy-grid' has d, c, b, a" in refused(capsys, *given)
        register_task(replace(task, horizon=3))
        assert "task 'toy-grid' a horizon of 3: raise the task's horizon" in refused(capsys, *given)
    finally:
        register_task(task)


@pytest.mark.parametrize(
    ("method", "without"),
    [((), "recall-vanilla"), (("--method", "attentiontuner"), "vanilla")],
    ids=["default", "paper"],
)
def test_unannotated_data_trains_without_a_memory_loss_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: tuple[str, ...], without: str
) -> None:
    toy_store(tmp_path / "data", annotate="none")
    given = ["toy-grid", "--data", tmp_path / "data", "--out", tmp_path / "run", *SMALL]
    problem = refused(capsys, *given, *method)
    assert "there is no annotator 'expert' (there: nobody), but the memory loss needs memory pairs" in problem
    assert problem.endswith(f"annotate some, choose --annotator, or train with --method {without}")
    assert main(["train", *map(str, given), "--method", without]) == 0


def test_another_configuration_and_a_damaged_folder_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["toy-grid", "--data", data, "--out", tmp_path / "run", *SMALL]
    assert main(["train", *map(str, given)]) == 0
    capsys.readouterr()
    assert "was made with seed = 1, now it is 2" in refused(capsys, *given, "--seed", "2")
    assert "was made with model.layers = 2, now it is 3" in refused(capsys, *given, "--epochs", "5", "--layers", "3")
    (tmp_path / "run" / "state" / "00001-00000" / "training.safetensors").write_bytes(b"nothing")
    assert "cannot go on" in refused(capsys, *given)
    (tmp_path / "run" / "config.json").write_text("[]")
    assert "config.json is damaged" in refused(capsys, *given)


def test_the_real_command_ends_with_2_and_no_traceback(tmp_path: Path) -> None:
    words = ["train", "hallway", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-m", "attentiontuner", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "does not exist" in done.stderr


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 * 10**9), ("1.5 MiB", 3 * 2**19), ("77", 77)])
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size
    with pytest.raises(UserError):
        parse_bytes(text + "x")


def test_a_task_that_cannot_be_played_is_refused_before_it_is_trained(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tasks._TASKS, "toy-grid", replace(toy_task("grid"), env_id=None))
    words = ["toy-grid", "--data", data, "--out", tmp_path / "run", *SMALL, "--eval-every", "1", "--eval-episodes", "2"]
    assert "it can be trained on, not played" in refused(capsys, *words)
    assert not (tmp_path / "run").exists()
