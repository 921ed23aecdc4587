"""Which environment seeds belong to demonstrations and which to evaluation: disjoint by construction."""

from attentiontuner.core.errors import UserError

SEEDS_PER_BLOCK = 1_000_000
"""A data set (or evaluation) with seed S draws its environment seeds from its own block of this size."""

EVALUATION_START = 2**30
"""Demonstration seeds lie below this number, evaluation seeds at or above it."""

MAX_SEED = EVALUATION_START // SEEDS_PER_BLOCK - 1

SELECTION_SEED = MAX_SEED
"""Evaluation seed of the episodes played during training: a model that they choose is judged on others."""


def demonstration_seed(seed: int, index: int) -> int:
    """Environment seed of attempt `index` (from 0) of the data set with seed `seed`."""
    return _block(seed) + _within_block(index)


def evaluation_seed(seed: int, index: int) -> int:
    """Environment seed of evaluation episode `index` (from 0) under evaluation seed `seed`."""
    return EVALUATION_START + _block(seed) + _within_block(index)


def _block(seed: int) -> int:
    if not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed {seed} is out of range: give one between 0 and {MAX_SEED}")
    return seed * SEEDS_PER_BLOCK


def _within_block(index: int) -> int:
    if not 0 <= index < SEEDS_PER_BLOCK:
        raise UserError(f"episode {index} is out of range: one seed has {SEEDS_PER_BLOCK} episodes; use a second seed")
    return index
