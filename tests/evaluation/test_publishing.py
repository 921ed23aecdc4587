"""Runs to give away, and those that come with the repository."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.evaluation import publishing
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from attentiontuner.runs.states import Progress, parse_weights
from attentiontuner.tasks.task import get_task
from tests.evaluation.toys import recall_task

CHECKPOINTS = sorted((Path(__file__).parents[2] / "checkpoints").glob("*/record.json"))


def test_what_is_published_plays_the_record_again(run, capsys, monkeypatch):
    assert main(["publish", str(run), "--out", "given", "--episodes", "20"]) == 0
    assert "in float16" in capsys.readouterr().out
    given = run.parent / "given"
    assert sorted(path.name for path in given.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "record.json",
    ]  # fmt: skip
    record = json.loads((given / "record.json").read_text())
    assert len(record["success"]) == 20
    assert record["success"].count("1") == record["successes"]
    assert main(["evaluate", "given", "--episodes", "20", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["of"] == record["of"]
    assert again["successes"] == record["successes"]
    card = (given / "README.md").read_text()
    assert f"**{record['successes']} of 20 episodes**" in card
    assert "attentiontuner --import FILE evaluate . --episodes 20 --seed 0" in card
    assert 'register_task(attentiontuner.Task.from_env("ToyRecall-v0", name="toy-recall"))' in card
    monkeypatch.setattr(publishing, "OURS", {"toy-recall"})
    assert main(["publish", str(run), "--out", "ours", "--episodes", "20"]) == 0
    ours = (run.parent / "ours" / "README.md").read_text()
    assert "attentiontuner evaluate . --episodes 20 --seed 0" in ours
    assert "--import" not in ours
    assert "5 demonstrations" in card
    weights = Run(given).load_model().model.state_dict()
    assert all(torch.equal(tensor, tensor.half().float()) for tensor in weights.values() if tensor.is_floating_point())
    assert (given / "model.safetensors").stat().st_size < 0.6 * (run / "model.safetensors").stat().st_size


def test_the_card_says_for_how_long_the_weights_were_trained(run, monkeypatch):
    whole, done = Run(run), [{"epoch": 1, "success_rate": 0.5}, {"epoch": 2, "success_rate": 0.5}, {"epoch": 3}]
    planned = whole.config().epochs
    assert publishing._epochs(whole, best=False) == f"{planned}"
    with monkeypatch.context() as patch:
        patch.setattr(Run, "config", lambda run: paper_config(recall_task(), epochs=7))
        patch.setattr(Run, "progress", lambda run: Progress(0, 1, 0.5))
        for metrics, best, said in ((done, False, "3 of 7"), (done, True, "1 of 7"), ([], False, "0 of 7")):
            patch.setattr(Run, "metrics", lambda run, metrics=metrics: metrics)
            assert publishing._epochs(whole, best) == said
    assert main(["publish", str(run), "--out", "given", "--episodes", "1"]) == 0
    given = run.parent / "given"
    assert f"| seed, epochs, batch | 1, {planned}, " in (given / "README.md").read_text()
    assert publishing._epochs(Run(given), best=False) == f"{planned}", "it has no log"


def test_weights_that_play_worse_in_float16_stay_as_they_are(run, capsys, monkeypatch):
    monkeypatch.setattr(publishing, "halved", lambda weights: {name: 0 * each for name, each in weights.items()})
    played = publishing._play

    def worse(trained, *others):
        results, summary = played(trained, *others)
        silent = not any(tensor.any() for tensor in trained.model.state_dict().values())
        return results, {**summary, "successes": 0 if silent else 7}

    monkeypatch.setattr(publishing, "_play", worse)
    assert main(["publish", str(run), "--out", "given", "--episodes", "5"]) == 0
    assert "in float32" in capsys.readouterr().out
    assert (run.parent / "given" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_numbers_too_large_for_float16_are_kept():
    weights = {"small": torch.tensor([0.1]), "large": torch.tensor([1e6]), "count": torch.tensor([70_000])}
    halved = publishing.halved(weights)
    assert halved["small"].dtype == torch.float16
    assert halved["large"].item() == 1e6
    assert halved["count"].dtype == torch.int64


def test_tables_are_published_without_what_was_never_seen(run):
    config = paper_config(recall_task(), "recall", model={"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32})
    Run(run.parent / "recall").begin(config, {"demonstrations": 5, "annotated": 4}, {"python": "3"})
    network, table = config.network.build(), "observation_embedding.weight"
    seen = torch.arange(40) % 5 == 0
    network.observation_embedding.scale[~seen] = 0
    Run(run.parent / "recall").save_best(network)
    (run.parent / "recall" / "best.safetensors").rename(run.parent / "recall" / "model.safetensors")
    made = publishing.publish(Run(run.parent / "recall"), recall_task(), "given", episodes=2)
    content = (made.run.path / "model.safetensors").read_bytes()
    assert load(content)[table].shape == (8, 16)
    whole = parse_weights(content, made.run.path)[table]
    assert torch.equal(whole[seen], network.state_dict()[table][seen].half())
    assert not whole[~seen].any()
    assert f"float16, {made.nbytes / 1000:,.0f} kB" in (made.run.path / "README.md").read_text()


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (torch.zeros(0, 128), torch.tensor([10**13])),  # of so many rows nobody has room
        (torch.zeros(0, 0), torch.tensor([2**62])),
        (torch.zeros(0, 4), torch.tensor([-3])),
        (torch.ones(1, 4), torch.tensor([0.0, 3.0])),
        (torch.ones(1, 4), torch.tensor([[0, 3], [0, 3]])),
        (torch.ones(1, 4), torch.tensor(3)),
        (torch.tensor(1.0), torch.tensor([0, 3])),
        (torch.ones(2, 4), torch.tensor([1, 3])),
        (torch.ones(1, 4), torch.tensor([3, 3])),
    ],
)
def test_rows_that_cannot_stand_where_a_file_says_are_damage(table, rows):
    with pytest.raises(UserError, match="it says wrongly where the rows of table stand"):
        parse_weights(save({"table": table, "rows of table": rows}), Path("model.safetensors"))


def test_a_folder_that_is_there_and_a_run_that_is_not_are_refused(run, capsys, monkeypatch):
    (run.parent / "given").mkdir()
    (run.parent / "given" / "mine.txt").write_text("mine")
    assert main(["publish", str(run), "--out", "given", "--episodes", "1"]) == 2
    assert "given is there already" in capsys.readouterr().err
    monkeypatch.setattr("attentiontuner.tasks.task._TASKS", {})
    assert main(["publish", str(run), "--out", "fresh"]) == 2
    assert "`attentiontuner --import FILE publish ...`" in capsys.readouterr().err
    assert main(["publish", "nowhere", "--out", "fresh"]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not (run.parent / "fresh").exists()
    assert not (run / "evaluation").exists()


@pytest.mark.parametrize("record", CHECKPOINTS, ids=lambda path: path.parent.name)
def test_checkpoints_of_the_repository_play_their_records(record):
    said = json.loads(record.read_text())
    task = get_task(said["of"]["task"], said["of"]["settings"])
    results, _ = evaluate(load_policy(record.parent), task, 30, said["of"]["seed"], workers=0)
    assert "".join(str(int(result.success)) for result in results) == said["success"][:30]


def test_there_are_some_and_all_are_small():
    sizes = [sum(path.stat().st_size for path in record.parent.iterdir()) for record in CHECKPOINTS]
    assert sizes
    assert min(sizes) < 5e5  # of symbols; a network for images has more than half a million weights
    assert sum(sizes) < 2e6
