"""Demonstrations, their memory dependency pairs, and the folder they are stored in. NumPy only."""

from attentiontuner.demos.agreement import PairAgreement, agreement
from attentiontuner.demos.annotations import (
    Annotation,
    RevisionConflict,
    read_annotation,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.merging import Merged, merge_annotators
from attentiontuner.demos.pair_rules import MemoryPair
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter

__all__ = [
    "Annotation",
    "DemoStore",
    "DemoWriter",
    "Demonstration",
    "MemoryPair",
    "Merged",
    "PackedDemos",
    "PairAgreement",
    "PairTable",
    "RevisionConflict",
    "agreement",
    "merge_annotators",
    "read_annotation",
    "read_annotations",
    "write_annotation",
]
