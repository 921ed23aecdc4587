"""What pairs gain against the same network without them, and the table of where they do not."""

import pytest

from attentiontuner.experiments.reporting.gains import gains, no_gain_grid
from tests.experiments.made import write_all

RATES = {
    ("hallway", "recall"): 0.9,
    ("hallway", "recall-vanilla"): 0.5,
    ("ordering", "recall"): 0.5,
    ("ordering", "recall-vanilla"): 0.5,
    ("counting", "recall"): 0.3,
    ("counting", "recall-vanilla"): 0.2,
}


@pytest.fixture
def few(tmp_path):
    """Counting with one seed, the others with three; seed 2 of Ordering with pairs was lucky."""

    def rate(cell):
        if "random" in cell.condition:
            return 0.1
        lucky = (cell.task, cell.method, cell.seed) == ("ordering", "recall", 2)
        return 1.0 if lucky else RATES[cell.task, cell.method]

    def keep(cell):
        of_interest = (cell.task, cell.method) in RATES and cell.condition in ("few-100", "few-100-random-pairs")
        return of_interest and cell.seed <= (1 if cell.task == "counting" else 3)

    return write_all(tmp_path, ["few"], "paper", rate, keep)


def test_pairs_help_where_the_interval_lies_above_nothing(few):
    found = {gain.given[0].cell.task: gain for gain in gains(few, "paper")}
    assert [len(gain.given) for gain in found.values()] == [3, 3, 1]
    assert {task: gain.helps for task, gain in found.items()} == {"hallway": True, "ordering": False, "counting": True}
    assert found["hallway"].difference == pytest.approx(40)
    assert found["hallway"].interval == pytest.approx((40, 40))  # every seed gains the same
    assert found["ordering"].difference == pytest.approx(50 / 3)
    assert found["ordering"].interval == pytest.approx((-32.0, 65.3), abs=0.1)
    assert found["counting"].interval == pytest.approx((6.2, 13.7), abs=0.1)  # of 1,000 episodes each
    assert gains(few, "small") == []


def test_only_seeds_that_both_have_are_compared(few):
    fewer = [one for one in few if (one.cell.method, one.cell.seed) != ("recall-vanilla", 1)]
    found = {gain.given[0].cell.task: gain for gain in gains(fewer, "paper")}
    assert list(found) == ["hallway", "ordering"]
    assert [one.cell.seed for one in found["ordering"].given] == [2, 3]
    assert [one.cell.seed for one in found["ordering"].without] == [2, 3]


def test_the_table_has_the_controls(few):
    grid = no_gain_grid(gains(few, "paper"))
    assert [line[:8] for line in grid.body] == [
        ["Ordering", "100", "Recall heads", "66.7", "50.0", "+16.7 (-32.0 to +65.3)", "10.0", grid.body[0][7]]
    ]
    assert grid.body[0][8] == "3"
