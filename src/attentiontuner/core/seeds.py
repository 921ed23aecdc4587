"""Which environment seeds belong to demonstrations and which to evaluation: disjoint by construction."""

from attentiontuner.core.errors import UserError

SEEDS_PER_BLOCK = 1_000_000
"""A data set (or evaluation) with seed S draws its environment seeds from its own block of this size."""

EVALUATION_START, EVALUATION_END = 2**30, 2**31
"""Evaluation seeds lie from the first number up to the second, demonstration seeds below and beyond."""

BLOCKS = EVALUATION_START // SEEDS_PER_BLOCK
"""Blocks below `EVALUATION_START`, and as many for evaluation; the data sets after these have theirs beyond."""

LAST_DATA_SEED = 2**32 - 1
"""Data sets have seeds up to this one: environment seeds then stay below 2⁵³, which JSON and pages hold exactly."""

SELECTION_SEED = BLOCKS - 1
"""Evaluation seed of the episodes played during training: a model that they choose is judged on others."""


def demonstration_seed(seed: int, index: int) -> int:
    """Environment seed of attempt `index` (from 0) of the data set with seed `seed`."""
    block = _checked(seed, LAST_DATA_SEED)
    first = block * SEEDS_PER_BLOCK if block < BLOCKS else EVALUATION_END + (block - BLOCKS) * SEEDS_PER_BLOCK
    return first + _within_block(index)


def evaluation_seed(seed: int, index: int) -> int:
    """Environment seed of evaluation episode `index` (from 0) under evaluation seed `seed`."""
    return EVALUATION_START + _checked(seed, BLOCKS - 1) * SEEDS_PER_BLOCK + _within_block(index)


def _checked(seed: int, last: int) -> int:
    if not 0 <= seed <= last:
        raise UserError(f"seed {seed} is out of range: give one between 0 and {last}")
    return seed


def _within_block(index: int) -> int:
    if not 0 <= index < SEEDS_PER_BLOCK:
        raise UserError(f"episode {index} is out of range: one seed has {SEEDS_PER_BLOCK} episodes; use a second seed")
    return index
