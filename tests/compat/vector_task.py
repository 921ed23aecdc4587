"""A task that exists only as recordings, of vectors. Importing this file registers it."""

import attentiontuner as at

TASK = at.register_task(
    at.Task(
        name="compat-vector",
        title="Recorded vectors",
        observation=at.ObservationSpec("vector", (4,)),
        actions=("left", "right", "stay"),
        horizon=12,
        settings={"gain": 0.5},
    )
)
