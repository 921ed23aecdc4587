"""Training from labels that are off or few, and a run that annotates."""

from dataclasses import replace

import numpy as np
import pytest

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.data.source import frame_bytes
from attentiontuner.demos import DemoWriter
from attentiontuner.demos.annotations import Annotation, read_annotations, write_annotation
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.evaluation import annotating
from attentiontuner.evaluation.annotating import _why, annotate_by_run
from attentiontuner.insight import inference, need, steps
from attentiontuner.insight.inference import Inferred
from attentiontuner.methods import get_method
from attentiontuner.methods.method import DataFacts
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from attentiontuner.tasks.task import Task
from attentiontuner.training.train import train
from tests.insight.cues import GRID, cue_store

EPISODES = 60


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(need, "PASSES", 6)
    monkeypatch.setattr(inference, "STEPS", 300)
    monkeypatch.setattr(inference, "CHECKED", 100)


@pytest.fixture
def store(tmp_path):
    return cue_store(tmp_path / "data", EPISODES, GRID)


def config(store, **changes):
    sizes = {"d_model": 16, "feedforward": 16}
    usual = {"epochs": 2, "test_fraction": 0.1, **changes}
    return paper_config(Task.from_data(store), "recall", sizes, DataFacts(EPISODES), **usual)


def test_recall_heads_take_labels_for_readings_and_the_paper_at_their_word(store):
    task = Task.from_data(store)
    assert get_method("recall").recipe(task, None)["labels"] == "readings"
    assert paper_config(task, "attentiontuner").labels == "exact"


def test_training_is_told_the_pairs_inferred_and_keeps_them(store, tmp_path, capsys):
    run = tmp_path / "run"
    train(config(store, noise_p=1, noise_q=1), store, run)
    assert "moved where they belong" in capsys.readouterr().err
    found = Inferred.load(Run(run).pairs)
    expert = store.read_pairs(np.arange(54))
    assert np.mean([found.pairs.one(row) == expert.one(row) for row in range(54)]) > 0.9
    before = Run(run).pairs.stat().st_mtime_ns
    train(config(store, noise_p=1, noise_q=1), store, run)  # goes on: nothing is inferred again
    assert Run(run).pairs.stat().st_mtime_ns == before


def test_right_labels_train_the_very_same_weights(store, tmp_path):
    for labels in ("readings", "exact"):
        train(config(store, labels=labels), store, tmp_path / labels)
    assert Run(tmp_path / "readings").weights().read_bytes() == Run(tmp_path / "exact").weights().read_bytes()
    assert not Run(tmp_path / "exact").pairs.exists()


def test_no_label_at_all_is_a_control(store, tmp_path):
    train(config(store, pairs="none", epochs=1), store, tmp_path / "run")
    assert Inferred.load(Run(tmp_path / "run").pairs).exact
    with pytest.raises(UserError, match="leaves nothing to learn from"):
        config(store, pairs="none", labels="exact")


def test_a_run_annotates_under_a_name_of_its_own(store, tmp_path, capsys):
    run, data = tmp_path / "run", str(store.path)
    train(config(store, epochs=30, labels="exact"), store, run)
    assert main(["annotate", data, "--by", str(run), "--as", "machine"]) == 0
    assert f"annotator machine has {EPISODES} episodes with" in capsys.readouterr().out
    said = read_annotations(store.path, "machine")
    expert = store.read_pairs()
    right = [{(p, q) for p, q, _ in said[row].pairs} == {(p, q) for p, q, _ in expert.one(row)} for row in said]
    assert np.mean(right) > 0.9
    assert said[0].note.startswith("inferred by run: it recalls them by")
    assert said[0].origins == {"run": {(p, q) for p, q, _ in said[0].pairs}}
    assert read_annotations(store.path, "machine")[0].pairs.weight.max() <= 1
    annotate_by_run(store.path, run, "machine")  # once more is no conflict

    nothing = replace(said[3], pairs=PairTable.nothing(expert.lengths[3:4]), origins={})
    write_annotation(store.path, "machine", 3, nothing)  # somebody corrects it
    with pytest.raises(UserError, match="'machine' has annotated episode 3: give the run another name"):
        annotate_by_run(store.path, run, "machine")
    assert not len(read_annotations(store.path, "machine")[3].pairs)

    write_annotation(store.path, "anna", 0, Annotation(expert.one(0)))
    before = read_annotations(store.path, "anna")
    assert main(["annotate", data, "--by", str(run), "--as", "anna"]) == 2
    assert "'anna' has annotated episode 0: give the run another name" in capsys.readouterr().err
    assert read_annotations(store.path, "anna") == before
    for wrong, line in (
        (["--by", str(run)], "--by needs --as NAME"),
        (["--as", "machine"], "--as needs --by RUN"),
        (["--by", str(run), "--as", "expert"], "belong to the scripted expert"),
        (["--by", str(tmp_path / "nowhere"), "--as", "machine"], "does not exist"),
        (["--by", str(run), "--as", "machine", "--threshold", "2"], "--threshold 2.0: give a weight"),
    ):
        assert main(["annotate", data, *wrong]) == 2
        assert line in capsys.readouterr().err


def test_a_run_annotates_its_own_task_and_as_many_together_as_fitted_when_it_was_trained(store, tmp_path, monkeypatch):
    others = DemoWriter(tmp_path / "others", task="others", observation=store.observation, actions=store.actions)
    others.append([replace(demo, episode=None) for demo in store][:2], "expert")
    usual, together = annotating._recalled, set()
    monkeypatch.setattr(annotating, "_recalled", lambda *given: together.add(len(given[2])) or usual(*given))
    for parts, most in ((None, 16), (4, 3)):
        run = tmp_path / f"run-{parts}"
        train(config(store, epochs=1, labels="exact", batch_size=10, parts=parts), store, run)
        with pytest.raises(UserError, match=r"holds demonstrations of 'others': .* was trained on 'cues'"):
            annotate_by_run(others.path, run, "machine")
        together.clear()
        annotate_by_run(store.path, run, "machine")
        assert max(together) == most


def test_the_note_names_the_pairs_that_a_run_is_unsure_of():
    weight = np.array([0.5, 0.9, 0.6, 0.7, 0.75, 0.55, 0.79], np.float32)
    p = np.arange(7, dtype=np.int32)
    length, nowhere, once = np.array([9]), np.zeros(7, np.int32), np.ones(7, np.int32)
    table = PairTable(length, np.array([True]), nowhere, p, p + 1, once, weight=weight)
    unsure = "unsure of 0 → 1 (50%), 5 → 6 (55%), 2 → 3 (60%), 3 → 4 (70%), 4 → 5 (75%) and 1 more"
    assert _why(table, 0.5) == f"it recalls them by 68% on average; {unsure}"
    assert _why(PairTable.nothing(length), 0.5) == "it recalls no step by 50% or more"


def test_streamed_data_have_the_same_need_and_the_same_pairs(store, tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "JUDGED_BYTES", frame_bytes(store, np.arange(EPISODES)) // 3)  # judged in three blocks
    monkeypatch.setattr(inference, "STEPS", 40)
    noisy = {"noise_p": 1, "noise_q": 1, "annotated_fraction": 0.5, "epochs": 1}
    for name, limit in (("held", None), ("streamed", 16)):
        train(config(store, **noisy, memory_limit=limit), store, tmp_path / name)
    held, streamed = Run(tmp_path / "held"), Run(tmp_path / "streamed")
    assert streamed.config().memory_limit == 16
    assert held.need.read_bytes() == streamed.need.read_bytes()
    assert held.pairs.read_bytes() == streamed.pairs.read_bytes()


def test_a_run_without_pairs_cannot_annotate(store, tmp_path):
    plain = paper_config(Task.from_data(store), "recall-vanilla", {"d_model": 16, "feedforward": 16}, epochs=1)
    train(plain, store, tmp_path / "plain")
    with pytest.raises(UserError, match="was trained without pairs"):
        annotate_by_run(store.path, tmp_path / "plain", "machine")
    assert "machine" not in DemoStore.open(store.path).annotators()


@pytest.mark.parametrize("method", ["gru", "lru"])
def test_a_probe_that_finds_something_at_every_step_cannot_annotate(store, tmp_path, method):
    small = {"d_model": 16, "feedforward": 16}
    train(paper_config(Task.from_data(store), method, small, epochs=1, labels="exact"), store, tmp_path / "probing")
    with pytest.raises(UserError, match=f"a probe of method '{method}' says where to look, not whether"):
        annotate_by_run(store.path, tmp_path / "probing", "machine")
    assert "machine" not in DemoStore.open(store.path).annotators()
