"""The memory loss in models of your own, with three kinds of attention: `python examples/memory_loss.py`.

Each is shown episodes in which a cue appears at some step and must be named at the last; a pair says which step that
was. `SdpaPolicy` has two tokens a step, an observation and an action, the others one.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner import expert_matrices, memory_loss, memory_loss_from_scores

CUES, NUMBERS, LONGEST, D, HEADS = 4, 8, 12, 32, 2


def episodes(count: int, seed: int) -> tuple[Tensor, Tensor, list[int], list[list[tuple[int, int]]]]:
    """Observations `[B, T, NUMBERS]`, actions `[B, T]` (-100 after the end), lengths in steps, and the pairs."""
    draw = torch.Generator().manual_seed(seed)
    observations = torch.rand(count, LONGEST, NUMBERS, generator=draw) * 0.1
    actions = torch.zeros(count, LONGEST, dtype=torch.long)
    lengths = torch.randint(3, LONGEST + 1, (count,), generator=draw).tolist()
    pairs = []
    for row, length in enumerate(lengths):
        cue = int(torch.randint(CUES, (), generator=draw))
        step = int(torch.randint(length - 1, (), generator=draw))
        observations[row, step, cue] = 1
        observations[row, length - 1, CUES] = 1  # now!
        actions[row, length - 1] = 1 + cue
        actions[row, length:] = -100
        pairs.append([(step, length - 1)])
    return observations, actions, lengths, pairs


class Policy(nn.Module):
    """What the three have in common: embeddings with positions, and the actions read from the observation tokens."""

    tokens_per_step = 1

    def __init__(self) -> None:
        super().__init__()
        self.observation = nn.Linear(NUMBERS, D)
        self.action = nn.Embedding(1 + CUES, D)
        self.position = nn.Embedding(LONGEST, D)
        self.output = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, 1 + CUES))

    def tokens(self, observations: Tensor, actions: Tensor) -> Tensor:
        """`[B, n, D]`: o_0, o_1, …, or with two tokens a step o_0, a_0, o_1, a_1, …."""
        position = self.position.weight[: observations.shape[1]]
        seen = self.observation(observations) + position
        if self.tokens_per_step == 1:
            return seen
        done = self.action(actions.clamp(min=0)) + position
        return torch.stack([seen, done], 2).flatten(1, 2)


class SdpaPolicy(Policy):
    """Fused attention gives no weights: the scores of the one head that is taught are computed again."""

    tokens_per_step = 2

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(D, 3 * D)

    def forward(self, observations: Tensor, actions: Tensor, expert: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(observations, actions)
        query, key, value = self.project(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # [B, HEADS, n, h]
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        scores = query[:, 0] @ key[:, 0].transpose(-1, -2) * query.shape[-1] ** -0.5  # [B, n, n], head 0
        logits = self.output(x + seen.transpose(1, 2).flatten(2))[:, ::2]  # of the observation tokens
        return logits, memory_loss_from_scores(scores, expert, tokens)


class MultiheadPolicy(Policy):
    """`nn.MultiheadAttention` gives weights, of each head where asked."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, observations: Tensor, actions: Tensor, expert: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(observations, actions)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        seen, weights = self.attention(x, x, x, attn_mask=future, need_weights=True, average_attn_weights=False)
        return self.output(x + seen), memory_loss(weights[:, 0], expert, tokens)  # head 0 of [B, HEADS, n, n]


class HuggingFacePolicy(Policy):
    """GPT-2 of `transformers`: only its eager attention gives weights, and dropout would be in them."""

    def __init__(self) -> None:
        from transformers import GPT2Config, GPT2Model

        super().__init__()
        sizes = {"vocab_size": 1, "n_positions": LONGEST, "n_embd": D, "n_layer": 1, "n_head": HEADS}
        no_words = {"bos_token_id": None, "eos_token_id": None}
        config = GPT2Config(**sizes, **no_words, attn_pdrop=0.0, attn_implementation="eager")
        self.transformer = GPT2Model(config)

    def forward(self, observations: Tensor, actions: Tensor, expert: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(observations, actions)
        done = self.transformer(inputs_embeds=x, output_attentions=True)
        weights = done.attentions[0][:, 0]  # layer 0, head 0 of [B, HEADS, n, n]
        return self.output(done.last_hidden_state), memory_loss(weights, expert, tokens)


def train(policy: Policy, steps: int = 300) -> list[float]:
    """Behavioural cloning with the memory loss; what the memory loss was at each step."""
    optimiser = torch.optim.Adam(policy.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        observations, actions, lengths, pairs = episodes(64, seed=step)
        sizes = {"tokens_per_step": policy.tokens_per_step, "padded_to": policy.tokens_per_step * LONGEST}
        expert, tokens = expert_matrices(pairs, lengths, **sizes)
        logits, memory = policy(observations, actions, expert, tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), actions.flatten(), ignore_index=-100) + 10 * memory
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(memory.item())
    return losses


if __name__ == "__main__":
    for kind in (SdpaPolicy, MultiheadPolicy, HuggingFacePolicy):
        torch.manual_seed(0)
        try:
            losses = train(kind())
        except ImportError as error:
            print(f"{kind.__name__}: left out: {error}")
        else:
            print(f"{kind.__name__}: memory loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
