"""Columns of the paper's two methods: those of its tables, and of what else was asked of them. Those of one recipe have
its name."""

from collections.abc import Mapping
from dataclasses import replace

from attentiontuner.experiments.planning.recipe import TUNER, VANILLA, Column, Condition, Stage
from attentiontuner.experiments.planning.task_groups import OTHER_TASKS, SOLVED_TASKS


def _placed(title: str, name: str, heads: str) -> Column:
    return Column(title, "attentiontuner", Condition(name, {"heads": heads}))


def _annotated(percent: str, epochs: Mapping[str, float] | None = None) -> Column:
    condition = Condition(f"annotated-{percent}", {"annotated_fraction": float(percent) / 100}, epochs=epochs or {})
    return Column(f"{percent} %", "attentiontuner", condition)


def _noisy(deviation: str, both: bool) -> Column:
    config = {"noise_p": float(deviation)} | ({"noise_q": float(deviation)} if both else {})
    return Column(deviation, "attentiontuner", Condition(f"noise-{'pq' if both else 'p'}-{deviation}", config))


def _more_data(times: int) -> Column:
    return Column(f"Vanilla {times}×", "vanilla", Condition(f"demos-{times}x", demos=times))


def _precise(title: str, precision: str) -> Column:
    condition = Condition(f"precision-{precision}", {"precision": precision}, epochs={"hallway": 0.6})
    return Column(title, "attentiontuner", condition)


_LONGER = {"mortar-mayhem": 2.0}
"""Appendix E: Mortar Mayhem with 0.1 % and 1 % of annotations was trained for 600 epochs instead of 300."""

TABLE1_STAGES = (
    Stage(SOLVED_TASKS, ("attentiontuner",), range(1, 4)),
    Stage(SOLVED_TASKS, ("vanilla",), range(1, 4)),
    Stage(SOLVED_TASKS, ("attentiontuner", "vanilla"), range(4, 6)),
    Stage(OTHER_TASKS, ("attentiontuner", "vanilla"), range(1, 6)),
)

# "None" has the very numbers of the vanilla runs elsewhere in the paper, so it is those runs here too.
# Of four layers the paper does not say which is the middle one; {middle} is the third.
PLACEMENT = (
    replace(VANILLA, title="None"),
    _placed("First, all", "first-layer-all-heads", "{first}:all"),
    _placed("Middle, all", "middle-layer-all-heads", "{middle}:all"),
    _placed("Last, all", "last-layer-all-heads", "{last}:all"),
    replace(TUNER, title="First, single"),
    _placed("Middle, single", "middle-layer-one-head", "{middle}:1"),
    _placed("Last, single", "last-layer-one-head", "{last}:1"),
)

MISSING = (
    replace(VANILLA, title="0 %"),
    _annotated("0.1", _LONGER),
    _annotated("1", _LONGER),
    _annotated("5"),
    _annotated("10"),
    _annotated("90"),
    replace(TUNER, title="100 %"),
)

IMPRECISE_P = (replace(TUNER, title="0"), *(_noisy(deviation, False) for deviation in ("1", "2", "5", "10", "20")))

IMPRECISE_PQ = (
    replace(TUNER, title="0"),
    *(_noisy(deviation, True) for deviation in ("0.5", "0.75", "1", "1.5", "2")),
)

SCALING = (
    replace(VANILLA, title="Vanilla 1×"),
    _more_data(2),
    _more_data(4),
    replace(TUNER, title="AttentionTuner 1×"),
)

SPLIT = (
    VANILLA,
    TUNER,
    Column(
        "Split over 4 heads",
        "attentiontuner",
        Condition("split-4-heads", {"heads": "{first}:all", "split_pairs": True}, {"heads": 4}),
    ),
)

CONTROLS = (
    VANILLA,
    Column("Random pairs", "attentiontuner", Condition("random-pairs", {"pairs": "random"})),
    Column("Shuffled pairs", "attentiontuner", Condition("shuffled-pairs", {"pairs": "shuffled"})),
    TUNER,
)

_PADDED = Condition("padding-learned", {"learn_padding": True})
PADDING = (
    VANILLA,
    replace(VANILLA, title="Vanilla, padding learned", condition=_PADDED),
    TUNER,
    replace(TUNER, title="AttentionTuner, padding learned", condition=_PADDED),
)

# On a GPU; on a CPU "auto" is float32 too.
PRECISION = (_precise("bfloat16", "auto"), _precise("float32", "float32"))
