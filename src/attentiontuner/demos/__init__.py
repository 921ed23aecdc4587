"""Demonstrations, their memory dependency pairs, and the folder they are stored in. NumPy only."""

from attentiontuner.demos.annotations import (
    Annotation,
    PairAgreement,
    RevisionConflict,
    agreement,
    read_annotation,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.packed import PackedDemos
from attentiontuner.demos.pairs import MemoryPair, PairArray, as_pairs
from attentiontuner.demos.store import DemoStore
from attentiontuner.demos.writer import DemoWriter

__all__ = [
    "Annotation",
    "DemoStore",
    "DemoWriter",
    "Demonstration",
    "MemoryPair",
    "PackedDemos",
    "PairAgreement",
    "PairArray",
    "RevisionConflict",
    "agreement",
    "as_pairs",
    "read_annotation",
    "read_annotations",
    "write_annotation",
]
