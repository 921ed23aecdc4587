"""How the threads of matrix products wait for each other."""

import os

SPINS = 2_000
"""Some hundred microseconds: a policy that plays alone waits often and briefly, and would lose half of its speed by
sleeping at once."""


def wait_briefly() -> None:
    """Let a thread that waits for the others sleep after a short while; to be called before torch is imported.

    GNU's OpenMP lets it spin for milliseconds. Beside another busy process that takes the core away from the very
    thread that is waited for, and training becomes ten times slower than alone. Who has said otherwise is obeyed.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = str(SPINS)
