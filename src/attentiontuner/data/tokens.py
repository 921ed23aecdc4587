"""The token layout, and pairs as places in the expert matrix E. The only file that knows both timesteps and tokens.

A trajectory of T steps is the token sequence o_0, a_0, o_1, a_1, …: observation t is token 2t, action t is token
2t + 1, n = 2T tokens in all. E is [n, n]; row i says what token i should attend to. Its rows of action tokens are zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOKENS_PER_STEP = 2


def observation_token(step: Any) -> Any:
    """Token of the observation at `step` (a number or an array of them)."""
    return TOKENS_PER_STEP * step


def head_of(recalled: NDArray[np.int64], recalling: NDArray[np.int64], heads: int) -> NDArray[np.int64]:
    """Which of `heads` supervised heads a one of E belongs to when each row's pairs are split over the heads.

    The row of token q is cut into `heads` equal stretches of the tokens before it: token p goes to head
    p // ceil((q + 1) / heads). Both arguments are tokens, any shape.
    """
    return recalled // -(-(recalling + 1) // heads)


def expert_matrix(
    pairs: NDArray[Any], length: int, attend_self: bool = True, tokens_per_step: int = TOKENS_PER_STEP
) -> NDArray[np.float32]:
    """E of one episode from pairs `[K, 2 or 3]` in timesteps: float32 `[n, n]`, n = tokens_per_step · length, a one at
    (token of q, token of p) for each pair, however often it counts. The observation is the first token of its step.

    `attend_self` adds a one on the diagonal for every observation: attend to the present.
    """
    expert = np.zeros((tokens_per_step * length,) * 2, np.float32)
    expert[tokens_per_step * pairs[:, 1], tokens_per_step * pairs[:, 0]] = 1
    if attend_self:
        present = tokens_per_step * np.arange(length)
        expert[present, present] = 1
    return expert
