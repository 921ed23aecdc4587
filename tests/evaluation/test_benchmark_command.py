"""`attentiontuner benchmark`: any policy on any task, and the leaderboard."""

import json

import pytest

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.experiments.reporting.leaderboard import leaderboard, lines_of
from attentiontuner.experiments.scores import Score, read_scores
from tests.experiments.made import write_all
from tests.toy_task import TOY

POLICIES = '''
import numpy as np

class Remembers:
    """Plays one episode after another, as somebody writes it who knows nothing of this package."""
    def __init__(self, task):
        self.actions = task.actions.count
    def reset(self):
        self.step = 0
    def act(self, observation):
        self.cue = int(observation[0, 0, 0]) if self.step == 0 else self.cue
        self.step += 1
        return self.cue

class Forgets:
    def act(self, observation):
        return 0

class Many:
    """Plays all rows at once."""
    def reset(self, n):
        self.cue, self.begins = np.zeros(n, int), np.ones(n, bool)
    def restart(self, rows):
        self.begins[rows] = True
    def act(self, observations):
        self.cue = np.where(self.begins, observations[:, 0, 0, 0], self.cue)
        self.begins[:] = False
        return self.cue

forgets, many = Forgets(), Many()
number = 3

def refuses(task):
    raise ValueError("no weights")

class Answers:
    def __init__(self, answer):
        self.answer = answer
    def act(self, observation):
        return self.answer

nothing, uneven, huge = Answers(None), Answers([[0, 1], [2]]), Answers(2**70)

class Fails:
    def act(self, observation):
        return {}["step"]

class FailsAtFirst:
    def reset(self):
        raise StopIteration
    def act(self, observation):
        return 0

fails, fails_at_first = Fails(), FailsAtFirst()
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "their_policies.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    assert TOY.name == "toy"
    return tmp_path


def benchmark(*words):
    return main(["benchmark", *map(str, words)])


def test_any_policy_is_played_on_the_same_episodes(folder, capsys):
    for policy in ("Remembers", "many", "forgets"):
        words = ("--demonstrations", 7, "--told", "pairs", "--by", "them") if policy == "many" else ()
        assert benchmark(f"their_policies.py:{policy}", "--task", "toy", "--episodes", 24, *words) == 0
    assert "Remembers on toy: 24 of 24 episodes solved" in capsys.readouterr().out
    forgets, many, remembers = read_scores(folder / "board")
    assert [len(score.evaluation["success"]) for score in (forgets, many, remembers)] == [24, 24, 24]
    assert remembers.evaluation["success"] == many.evaluation["success"] == "1" * 24
    assert remembers.evaluation["first_environment_seed"] == evaluation_seed(0, 0)
    assert forgets.evaluation["successes"] == 0
    assert (many.demonstrations, many.told, many.by) == (7, "pairs", "them")
    assert benchmark() == 0
    table = capsys.readouterr().out
    names = [line.split("|")[2].strip() for line in table.splitlines()]
    assert set(names[2:4]) == {"Remembers", "many"}
    assert names[4] == "forgets"
    assert "100.0 (24 episodes)" in table


def test_the_floor_and_the_ceiling(folder, capsys):
    for policy in ("expert", "random"):
        assert benchmark(policy, "--task", "toy", "--episodes", 8, "--set", "length=4") == 0
    expert, random = read_scores(folder / "board")
    assert expert.evaluation["successes"] == 8 > random.evaluation["successes"]
    capsys.readouterr()
    assert benchmark() == 0
    assert "(length=4)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["their_policies.py:Nobody", "--task", "toy"], "there is no 'Nobody'"),
        (["their_policies.py:number", "--task", "toy"], "cannot be called with the task"),
        (["their_policies.py:refuses", "--task", "toy"], "no weights"),
        (["their_policies.py:Remembers"], "needs --task"),
        (["nowhere.py:Remembers", "--task", "toy"], "POLICY nowhere.py:Remembers: there is no such file"),
        (["nowhere.at_all:Remembers", "--task", "toy"], "POLICY nowhere.at_all:Remembers: there is no module"),
        (["their_policies.py", "--task", "toy"], "in the file: write FILE.py:NAME, their_policies.py:NAME"),
        (["nowhere"], "nowhere does not exist"),
        (["their_policies.py:nothing", "--task", "toy"], "the policy's act: action None: expected whole numbers"),
        (["their_policies.py:huge", "--task", "toy"], f"the policy's act: action {2**70}: expected whole numbers"),
        (["their_policies.py:uneven", "--task", "toy"], "the policy's act: it gave actions of several shapes"),
        (["their_policies.py:fails", "--task", "toy"], "their_policies.py, line 46: KeyError: 'step'"),
        (["their_policies.py:fails_at_first", "--task", "toy"], f"(seed {2**30}): the policy's reset: "),
        (["random", "--task", "toy", "--name", "a/b"], "--name 'a/b'"),
        (["random", "--task", "toy", "--demonstrations", "-1"], "--demonstrations -1"),
        ([], "has no scores"),
    ],
)
def test_mistakes_are_one_line(folder, capsys, words, told):
    assert benchmark(*words) == 2
    said = capsys.readouterr().err.strip()
    assert told in said
    assert "\n" not in said
    assert not (folder / "board").exists()


def test_nobodys_score_is_overwritten(folder, capsys):
    assert benchmark("random", "--task", "toy", "--episodes", 2) == 0
    before = (folder / "board" / "toy--random.json").read_bytes()
    assert benchmark("random", "--task", "toy", "--episodes", 3) == 2
    assert "is there already: give another --name" in capsys.readouterr().err
    assert (folder / "board" / "toy--random.json").read_bytes() == before


def test_a_score_of_other_episodes_is_none(folder, capsys):
    assert benchmark("random", "--task", "toy", "--episodes", 2) == 0
    value = json.loads((folder / "board" / "toy--random.json").read_text())
    value["evaluation"]["first_environment_seed"] += 1
    with pytest.raises(UserError, match="evaluation seed 0"):
        Score.from_json(value)
    (folder / "board" / "toy--other.json").write_text(json.dumps(value))
    assert len(read_scores(folder / "board")) == 1
    assert "left out" in capsys.readouterr().err


def test_a_score_with_another_number_is_left_out(folder, capsys):
    assert benchmark("random", "--task", "toy", "--episodes", 2) == 0
    path = folder / "board" / "toy--random.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "demonstrations": 7}))
    assert read_scores(folder / "board") == []
    assert "toy--random.json is damaged: its content does not have its checksum" in capsys.readouterr().err
    del value["seal"]  # as scores of before have none
    path.write_text(json.dumps(value))
    assert len(read_scores(folder / "board")) == 1


def test_records_of_experiments_stand_beside(folder):
    records = write_all(
        folder, ["few"], "paper", keep=lambda cell: cell.task == "hallway" and cell.condition.startswith("few-100")
    )
    lines = lines_of([], records)
    assert {line.demonstrations for line in lines} == {100, 1000}
    assert len(lines) == 8  # four methods, two sizes; random pairs are another experiment
    assert all(line.runs == 3 for line in lines)
    assert {line.told for line in lines} == {"pairs", ""}
    assert [line.success for line in lines] == sorted((line.success for line in lines), reverse=True)
    assert leaderboard(lines).body[0][0] == "Hallway"
    assert {row[0] for row in leaderboard(lines).body[1:]} == {""}
