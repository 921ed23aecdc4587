"""`attentiontuner evaluate`, from the command line to the files."""

import dataclasses
import hashlib
import json

import pytest

from attentiontuner.cli import main
from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.evaluation import opening
from attentiontuner.experts.expert import Decision
from attentiontuner.tasks.task import register_task
from tests.evaluation.toys import recall_task


def test_a_run_is_evaluated_and_filmed(run, capsys):
    assert main(["evaluate", str(run), "--episodes", "12", "--workers", "0", "--video", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    written = json.loads((run / "evaluation" / "summary.json").read_text())
    assert told == {**written, "films": told["films"]}
    assert told["episodes"] == 12
    assert len(told["of"]["weights"]) == 64
    assert sorted(told["films"]) == sorted(str(path) for path in (run / "evaluation").glob("*.gif"))
    assert len(told["films"]) == 2
    episodes = (run / "evaluation" / "episodes.jsonl").read_bytes()
    assert main(["evaluate", str(run), "--episodes", "12", "--workers", "2", "--batch", "5"]) == 0
    out = capsys.readouterr().out
    assert f"{written['successes']} of 12 episodes solved" in out
    assert "95 % interval" in out
    assert (run / "evaluation" / "episodes.jsonl").read_bytes() == episodes


def test_the_checksum_is_that_of_the_weights_that_played(run, capsys, monkeypatch):
    """Training may replace the file at any moment."""
    played = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    make_policy = opening.as_policy

    def replaced_meanwhile(trained, **options):
        (run / "model.safetensors").write_bytes(b"other weights")
        return make_policy(trained, **options)

    monkeypatch.setattr(opening, "as_policy", replaced_meanwhile)
    assert main(["evaluate", str(run), "--episodes", "2", "--workers", "0", "--video", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["of"]["weights"] == played
    assert len(told["films"]) == 1


class ProphetExpert:
    """Recalls a step that is yet to come."""

    def __init__(self, env):
        pass

    def decide(self, observation):
        return Decision(0, (40,))


def test_an_expert_that_recalls_the_future_does_not_stop_the_film(run, capsys):
    register_task(dataclasses.replace(recall_task(), expert=ProphetExpert))
    assert main(["evaluate", str(run), "--episodes", "2", "--workers", "0", "--video", "1"]) == 0
    told = capsys.readouterr()
    assert "film: " in told.out
    (line,) = [line for line in told.err.splitlines() if line.startswith("attentiontuner: ")]
    assert "the expert fails at step 0: the expert recalls step 40 at step 0" in line


def test_floor_and_ceiling(run, capsys):
    assert main(["evaluate", "--policy", "expert", "--task", "toy-recall", "--episodes", "20", "--workers", "0"]) == 0
    assert "20 of 20 episodes solved: 100.0 %" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--policy", "random", "--episodes", "20", "--workers", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["successes"] < 15
    assert (run / "evaluation" / "random" / "episodes.jsonl").exists()
    assert (run.parent / "runs" / "toy-recall-expert" / "evaluation" / "summary.json").exists()


def test_a_killed_worker_leaves_one_line_and_the_finished_episodes(run, capfd, monkeypatch):
    register_task(recall_task(trouble={EVALUATION_START + 20: "kill"}))
    assert main(["evaluate", str(run), "--episodes", "40", "--workers", "2", "--batch", "4"]) == 2
    error = capfd.readouterr().err
    said = [line for line in error.splitlines() if line.startswith("attentiontuner: ")]
    assert len(said) == 1
    assert f"episode 20 (seed {EVALUATION_START + 20}): worker process" in said[0]
    assert "finished episodes kept in" in said[0]
    assert "Traceback" not in error
    finished = (run / "evaluation" / "episodes.jsonl").read_text().splitlines()
    assert 10 < len(finished) < 40


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["RUN", "--task", "hallway"], "was trained on task 'toy-recall': it cannot be evaluated on 'hallway'"),
        (["RUN", "--best"], "has no best.safetensors"),
        (["RUN", "--episodes", "0"], "--episodes 0"),
        (["RUN", "--seed", "-1"], "seed -1 is out of range"),
        (["RUN", "--batch", "0"], "--batch 0: give at least 1"),
        (["RUN", "--device", "gpu"], "--device gpu: there is no such device"),
        (["RUN", "--out", "RUN/config.json"], "is a file: give a folder"),
        (["RUN", "--set", "size=3"], "does not take these settings"),
        (["RUN", "--policy", "random", "--video", "1"], "--video shows what a trained model recalls"),
        (["nowhere"], "nowhere does not exist"),
        ([], "give the folder of a run"),
        (["--policy", "expert"], "needs --task"),
    ],
)
def test_refusals_are_one_line(run, capsys, words, text):
    assert main(["evaluate", *[word.replace("RUN", str(run)) for word in words]]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("attentiontuner: ") == 1
