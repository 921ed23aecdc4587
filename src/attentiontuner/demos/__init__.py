"""Demonstrations, their memory dependency pairs, and the folder they are stored in. NumPy only."""

from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.pairs import MemoryPair, PairArray, as_pairs

__all__ = ["Demonstration", "MemoryPair", "PairArray", "as_pairs"]
