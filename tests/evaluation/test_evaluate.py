"""Evaluations on disk: traceable, resumable, the same whatever the workers."""

import json
import shutil
import time
from dataclasses import replace

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.evaluation.players import ExpertPolicy, RandomPolicy
from attentiontuner.evaluation.rollout import rollout
from attentiontuner.runs.run import Run
from tests.evaluation.toys import CuePolicy, HashPolicy, recall_task

TASK = recall_task()


def lines(out):
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


class Counting(HashPolicy):
    """Counts the rows it is asked about."""

    asked = 0

    def act(self, observations):
        Counting.asked += len(observations)
        return super().act(observations)


def test_files_say_the_same_as_the_result(tmp_path):
    results, summary = evaluate(HashPolicy(), TASK, 30, out=str(tmp_path), workers=0, batch=8, of={"policy": "hash"})
    assert lines(tmp_path) == [result.to_json() for result in results]
    assert [line["seed"] for line in lines(tmp_path)] == [EVALUATION_START + index for index in range(30)]
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert summary["successes"] == sum(result.success for result in results)
    assert summary["mean_length"] == pytest.approx(sum(result.length for result in results) / 30)
    assert summary["interval"][0] < summary["success_rate"] < summary["interval"][1]
    assert summary["of"]["policy"] == "hash"


def test_a_run_and_its_task_may_be_named(run):
    policy = load_policy(run, device="cpu")
    assert repr(policy) == "ModelPolicy(task toy-recall, network transformer, episodes of at most 12 steps, on cpu)"
    named, _ = evaluate(run, "toy-recall", 3, workers=0)
    assert named == evaluate(policy, TASK, 3, workers=0)[0]
    with pytest.raises(UserError, match="unknown task 'toy-recal': did you mean toy-recall"):
        evaluate(str(run), "toy-recal", 3)
    config = replace(Run(run).config(), settings={"trouble": None})
    longer = Run(run.with_name("longer"))
    longer.begin(config, {"demonstrations": 5, "annotated": 4}, {"python": "3"})
    shutil.copy(run / "model.safetensors", longer.path)
    _, summary = evaluate(str(longer.path), "toy-recall", 2, workers=0)
    assert summary["of"]["settings"] == {"trouble": None}, "those it was trained with"


def test_without_a_folder_it_finds_the_same_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    results, summary = evaluate(HashPolicy(), TASK, 30, 2, workers=0, batch=8)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""
    kept, written = evaluate(HashPolicy(), TASK, 30, 2, tmp_path / "out", workers=0, batch=8)
    assert results == kept
    assert {**summary, "seconds": 0} == {**written, "seconds": 0}


def test_damaged_files_are_met(tmp_path):
    results, _ = evaluate(HashPolicy(), TASK, 5, out=tmp_path, workers=0)
    with open(tmp_path / "episodes.jsonl", "ab") as stream:
        stream.write(b'{"episode": "\xff\n[]\n')
    assert evaluate(HashPolicy(), TASK, 5, out=tmp_path, workers=0)[0] == results
    (tmp_path / "summary.json").write_text("[]")
    with pytest.raises(UserError, match=r"summary\.json is damaged: it holds no summary"):
        evaluate(HashPolicy(), TASK, 5, out=tmp_path, workers=0)


def test_a_stopped_evaluation_goes_on(tmp_path):
    whole, _ = evaluate(HashPolicy(), TASK, 30, out=tmp_path / "whole", workers=0, batch=4)
    trouble = {EVALUATION_START + 20: "raise"}
    message = r"^episode 20 \(seed \d+\): .*; \d+ finished episodes kept in .*episodes.jsonl"
    with pytest.raises(UserError, match=message):
        evaluate(HashPolicy(), recall_task(trouble=trouble), 30, out=tmp_path / "parts", workers=0, batch=4)
    finished = lines(tmp_path / "parts")
    assert 10 < len(finished) < 30
    # The settings are part of what is evaluated; here only the trouble is mended, so they are put right by hand.
    summary = json.loads((tmp_path / "parts" / "summary.json").read_text())
    summary["of"]["settings"] = {}
    (tmp_path / "parts" / "summary.json").write_text(json.dumps(summary))
    with open(tmp_path / "parts" / "episodes.jsonl", "a") as stream:
        stream.write('{"episode": 29, "se')  # a line cut off by a kill
    Counting.asked = 0
    resumed, _ = evaluate(Counting(), TASK, 30, out=tmp_path / "parts", workers=0, batch=1)
    assert resumed == whole
    assert Counting.asked == sum(result.length for result in whole) - sum(line["length"] for line in finished)
    assert (tmp_path / "parts" / "episodes.jsonl").read_bytes() == (tmp_path / "whole" / "episodes.jsonl").read_bytes()


def test_more_episodes_later_and_fewer_again(tmp_path):
    ten, _ = evaluate(HashPolicy(), TASK, 10, out=tmp_path, workers=0)
    twenty, summary = evaluate(HashPolicy(), TASK, 20, out=tmp_path, workers=0)
    assert twenty[:10] == ten
    assert summary["episodes"] == 20
    Counting.asked = 0
    again, summary = evaluate(Counting(), TASK, 10, out=tmp_path, workers=0)
    assert (again, summary["episodes"], Counting.asked) == (ten, 10, 0)
    assert len(lines(tmp_path)) == 20


def test_the_seconds_of_a_finished_evaluation_stay(tmp_path):
    for slept in (0.3, 0.0):
        policy = HashPolicy()
        policy.reset = lambda rows, reset=policy.reset, slept=slept: (time.sleep(slept), reset(rows))[1]
        _, summary = evaluate(policy, TASK, 4, out=tmp_path, workers=0, batch=4)
        assert summary["seconds"] >= 0.3


def test_another_evaluation_starts_anew_and_keeps_the_old_one(tmp_path, capsys):
    _, old = evaluate(CuePolicy(), TASK, 10, out=tmp_path, workers=0, of={"weights": "old"})
    (tmp_path / "episode-0002-failed.gif").write_bytes(b"film of the old weights")
    evaluate(CuePolicy(), TASK, 5, out=tmp_path, workers=0, of={"weights": "new"})
    assert not list(tmp_path.glob("*.gif"))
    assert (tmp_path / "earlier" / "1" / "episode-0002-failed.gif").exists()
    assert f"seed or settings, is now in {tmp_path / 'earlier' / '1'}\n" in capsys.readouterr().err
    assert len(lines(tmp_path)) == 5
    assert len(lines(tmp_path / "earlier" / "1")) == 10
    assert json.loads((tmp_path / "earlier" / "1" / "summary.json").read_text()) == old
    results, _ = evaluate(CuePolicy(), TASK, 5, out=tmp_path, workers=0, seed=3, of={"weights": "new"})
    assert [line["seed"] for line in lines(tmp_path)] == [result.seed for result in results]
    assert results[0].seed == EVALUATION_START + 3_000_000
    assert len(lines(tmp_path / "earlier" / "2")) == 5
    shutil.rmtree(tmp_path / "earlier" / "1")  # what people tidy away leaves the others where they are
    evaluate(CuePolicy(), TASK, 5, out=tmp_path, workers=0, seed=4, of={"weights": "new"})
    assert len(lines(tmp_path / "earlier" / "3")) == 5


def test_settings_the_environment_does_not_take_touch_nothing(tmp_path):
    evaluate(CuePolicy(), TASK, 3, out=tmp_path, workers=0)
    with pytest.raises(UserError, match="does not take these settings"):
        evaluate(CuePolicy(), recall_task(size=3), 3, out=tmp_path, workers=0)
    assert len(lines(tmp_path)) == 3


@pytest.mark.parametrize("policy", [RandomPolicy(7), ExpertPolicy()], ids=["random", "expert"])
def test_floor_and_ceiling_do_not_depend_on_workers_or_batch(policy):
    seeds = [EVALUATION_START + index for index in range(40)]
    here = rollout(policy, TASK, seeds, batch=40, workers=0)
    assert rollout(policy, TASK, seeds, batch=5, workers=2) == here
    solved = sum(result.success for result in here)
    assert solved == 40 if isinstance(policy, ExpertPolicy) else 0 < solved < 25
    assert len({result.length for result in here}) > 3
    if isinstance(policy, RandomPolicy):
        assert rollout(RandomPolicy(8), TASK, seeds, workers=0) != here


def test_an_expert_in_trouble_is_named():
    seed = EVALUATION_START + 2
    with pytest.raises(UserError, match=rf"^episode 2 \(seed {seed}\): .* raised ZeroDivisionError"):
        rollout(
            ExpertPolicy(), recall_task(trouble={seed: "raise"}), [EVALUATION_START + i for i in range(4)], workers=0
        )
