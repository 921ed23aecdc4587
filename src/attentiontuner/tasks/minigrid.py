"""Minigrid's memory corridor, in the sizes that Minigrid registers."""

from attentiontuner.tasks.environment import SYMBOLIC_VIEW
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.paper import MINIGRID_ACTIONS, MINIGRID_VIEW
from attentiontuner.tasks.task import Task, register_task

CORRIDOR = Instructions(
    goal="Look at the object in the first room, a key or a ball. At the end of the corridor there are both: go to the "
    "one that was in the room.",
    p="The step at which the object of the first room is in view.",
    q="The step at the end of the corridor at which the player turns to one of the two.",
)

for _size, _random in ((7, False), (9, False), (11, False), (13, False), (13, True), (17, True)):
    register_task(
        Task(
            name=f"minigrid-memory-s{_size}{'-random' if _random else ''}",
            title=f"MiniGrid MemoryS{_size}{'Random' if _random else ''}",
            env_id=f"MiniGrid-MemoryS{_size}{'Random' if _random else ''}-v0",
            register="minigrid",
            wrap=SYMBOLIC_VIEW,
            observation=MINIGRID_VIEW,
            actions=MINIGRID_ACTIONS,
            keys={"ArrowLeft": 0, "ArrowRight": 1, "ArrowUp": 2},
            expert="attentiontuner.experts.memory_corridor:MemoryCorridorExpert",
            horizon=5 * _size**2,
            instructions=CORRIDOR,
        )
    )
