"""What the paper published: every number once, with the place where it stands.

Yue, Liu, Stone: "Learning Memory Mechanisms for Decision Making through Demonstrations". Success rates are in percent;
`±` is the half width of the 90 % interval over seeds. Columns are named as in the recipes, so that a recipe's table
finds its neighbour here.
"""

from collections.abc import Mapping
from typing import NamedTuple

TITLE = "Learning Memory Mechanisms for Decision Making through Demonstrations"


class Published(NamedTuple):
    """A published success rate in percent, its 90 % half width (None: not printed), and where it stands."""

    mean: float
    half_width: float | None
    place: str

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.half_width is None else f"{self.mean:g} ± {self.half_width:g}"


class HumanTime(NamedTuple):
    """Seconds a person took for ten demonstrations (Table 9)."""

    play: float
    annotate: float


HUMAN_TIME_DEMONSTRATIONS = 10
HUMAN_TIMES = {"mortar-mayhem": HumanTime(500.0, 1266.0), "hallway": HumanTime(129.0, 359.0)}
HUMAN_TIMES_PLACE = "Appendix K, timing table"


class Value(NamedTuple):
    """Appendix L: what it took to reach 100 %, what one annotated demonstration is worth, and the labour it saves."""

    annotated: int
    demonstrations: int
    worth: float
    labour: float


VALUES = {"mortar-mayhem": Value(400, 16_000, 40.0, 16.0), "hallway": Value(250, 10_000, 40.0, 14.0)}

WELCH_P = {
    "mortar-mayhem": 0.016,
    "mystery-path": 0.012,
    "searing-spotlights": 0.546,
    "hallway": 0.014,
    "ordering": 0.008,
    "counting": 0.261,
}
WELCH_PLACE = "Appendix G, Table 5"

SEEDS = 5
MORE_SEEDS = {("hallway", "vanilla"): 10, ("ordering", "vanilla"): 15}
"""Appendix F: (task, method) with more than five seeds in Table 1."""

TASK_ORDER = ("mortar-mayhem", "mystery-path", "searing-spotlights", "hallway", "ordering", "counting")
"""The order of the columns of Table 1."""

Row = Mapping[str, tuple[float, float | None]]


def _table(place: str, rows: Mapping[str, Row]) -> dict[tuple[str, str], Published]:
    return {
        (task, column): Published(mean, half_width, place)
        for task, row in rows.items()
        for column, (mean, half_width) in row.items()
    }


_NO_MEMORY_LOSS = {"mortar-mayhem": (20.8, 42.2), "hallway": (42.0, 50.5)}
_STANDARD = {"mortar-mayhem": (99.8, 0.4), "hallway": (99.9, 0.1)}

_TABLE_1: Mapping[str, Row] = {
    "mortar-mayhem": {"Vanilla": (20.8, 42.2), "AttentionTuner": (99.8, 0.4)},
    "mystery-path": {"Vanilla": (97.3, 0.7), "AttentionTuner": (98.7, 0.4)},
    "searing-spotlights": {"Vanilla": (62.2, 5.5), "AttentionTuner": (64.2, 3.4)},
    "hallway": {"Vanilla": (53.2, 28.3), "AttentionTuner": (99.9, 0.1)},
    "ordering": {"Vanilla": (59.4, 22.9), "AttentionTuner": (99.9, 0.3)},
    "counting": {"Vanilla": (6.0, 0.7), "AttentionTuner": (6.5, 0.4)},
}

TABLES: Mapping[str, Mapping[tuple[str, str], Published]] = {
    "table1": _table("Table 1", _TABLE_1),
    "placement": _table(
        "Appendix B, Table 2",
        {
            "mortar-mayhem": {
                "None": _NO_MEMORY_LOSS["mortar-mayhem"],
                "First, all": (100.0, 0.1),
                "Middle, all": (99.7, 0.6),
                "Last, all": (99.9, 0.1),
                "First, single": _STANDARD["mortar-mayhem"],
                "Middle, single": (100.0, 0.1),
                "Last, single": (39.9, 52.1),
            },
            "hallway": {
                "None": _NO_MEMORY_LOSS["hallway"],
                "First, all": (99.9, 0.2),
                "Middle, all": (100.0, 0.0),
                "Last, all": (89.4, 22.5),
                "First, single": _STANDARD["hallway"],
                "Middle, single": (99.8, 0.3),
                "Last, single": (99.12, 1.7),
            },
        },
    ),
    "missing": _table(
        "Appendix I, Table 6, and Figure 5",
        {
            "mortar-mayhem": {
                "0 %": _NO_MEMORY_LOSS["mortar-mayhem"],
                "0.1 %": (23.0, 41.2),
                "1 %": (80.3, 41.3),
                "5 %": (93.4, 11.1),
                "10 %": (100.0, 0.0),
                "90 %": (100.0, 0.0),
                "100 %": _STANDARD["mortar-mayhem"],
            },
            "hallway": {
                "0 %": _NO_MEMORY_LOSS["hallway"],
                "0.1 %": (79.7, 40.0),
                "1 %": (96.7, 6.8),
                "5 %": (99.9, 0.2),
                "10 %": (99.8, 0.5),
                "90 %": (100.0, 0.0),
                "100 %": _STANDARD["hallway"],
            },
        },
    ),
    "imprecise-p": _table(
        "Appendix J, Table 7",
        {
            "mortar-mayhem": {
                "0": _STANDARD["mortar-mayhem"],
                "1": (99.22, 0.7),
                "2": (99.7, 0.5),
                "5": (100.0, 0.1),
                "10": (79.3, 38.2),
                "20": (21.2, 42.0),
            },
            "hallway": {
                "0": _STANDARD["hallway"],
                "1": (99.9, 0.1),
                "2": (82.0, 38.5),
                "5": (81.7, 38.8),
                "10": (88.4, 23.7),
                "20": (56.7, 45.6),
            },
        },
    ),
    "imprecise-pq": _table(
        "Appendix J, Table 8",
        {
            "mortar-mayhem": {
                "0": _STANDARD["mortar-mayhem"],
                "0.5": (100.0, 0.0),
                "0.75": (99.4, 1.0),
                "1": (100.0, 0.0),
                "1.5": (57.5, 50.2),
                "2": (20.0, 42.6),
            },
            "hallway": {
                "0": _STANDARD["hallway"],
                "0.5": (100.0, 0.0),
                "0.75": (75.9, 36.4),
                "1": (20.3, 24.2),
                "1.5": (24.5, 36.0),
                "2": (3.5, 2.6),
            },
        },
    ),
    # Figure 6 prints no numbers; the text of Appendix L says where its curves reach 100 %.
    "scaling": _table(
        "Figure 6, Appendix L",
        {
            "mortar-mayhem": {
                "Vanilla 1×": _NO_MEMORY_LOSS["mortar-mayhem"],
                "Vanilla 4×": (100.0, None),
                "AttentionTuner 1×": _STANDARD["mortar-mayhem"],
            },
            "hallway": {
                "Vanilla 1×": _NO_MEMORY_LOSS["hallway"],
                "Vanilla 2×": (100.0, None),
                "AttentionTuner 1×": _STANDARD["hallway"],
            },
        },
    ),
    # Appendix B says only that splitting "did not yield a notable improvement"; the other two columns are Table 1's.
    "split": _table("Table 1", {"searing-spotlights": _TABLE_1["searing-spotlights"]}),
}


def published(recipe: str, task: str, column: str) -> Published | None:
    """What the paper printed for this column of this recipe's table; None where it printed nothing."""
    return TABLES.get(recipe, {}).get((task, column))
