"""Methods: ways to learn from demonstrations, one file each."""

from attentiontuner.methods.bounded_memories import Gru, GruWithoutPairs, Lru, LruWithoutPairs, Slots, SlotsWithoutPairs
from attentiontuner.methods.method import DataFacts, Method, all_methods, facts_of, get_method, register_method
from attentiontuner.methods.recall_heads import RecallHeads, RecallWithoutPairs
from attentiontuner.methods.tuner import AttentionTuner, Vanilla

__all__ = ["DataFacts", "Method", "all_methods", "facts_of", "get_method", "register_method"]

for _method in (  # in the order of tables and figures
    *(Vanilla, AttentionTuner, RecallWithoutPairs, RecallHeads),
    *(GruWithoutPairs, Gru, LruWithoutPairs, Lru, SlotsWithoutPairs, Slots),
):
    register_method(_method)
