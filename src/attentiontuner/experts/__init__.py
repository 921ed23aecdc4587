"""Scripted experts, one per task: each solves its task and says which past steps it used."""

from attentiontuner.experts.expert import Decision, Expert

__all__ = ["Decision", "Expert"]
