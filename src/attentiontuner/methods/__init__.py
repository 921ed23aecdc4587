"""Methods: ways to learn from demonstrations, one file each."""

from attentiontuner.methods.method import DataFacts, Method, all_methods, facts_of, get_method, register_method
from attentiontuner.methods.recall_heads import RecallHeads, RecallWithoutPairs
from attentiontuner.methods.tuner import AttentionTuner, Vanilla

__all__ = ["DataFacts", "Method", "all_methods", "facts_of", "get_method", "register_method"]

for _method in (Vanilla, AttentionTuner, RecallWithoutPairs, RecallHeads):  # in the order of tables and figures
    register_method(_method)
