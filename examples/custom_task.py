"""A task of your own: Minigrid's memory room. An object is shown; at the end of a corridor the same one must be chosen.

python examples/custom_task.py
attentiontuner --import examples/custom_task.py collect memory-room --episodes 500 --out data/memory-room
"""

from attentiontuner import Decision, ObservationSpec, Task, register_task
from attentiontuner.collecting.collection import collect
from attentiontuner.demos import DemoStore

LEFT, RIGHT, FORWARD = 0, 1, 2
WALL, KEY, BALL = 2, 5, 6


class MemoryRoomExpert:
    """Turns to the room behind it, notes its object, walks to the fork, and recalls the step at which it saw it."""

    def __init__(self, env):
        self.step, self.cue, self.plan = -1, None, [LEFT, LEFT]

    def decide(self, view):
        self.step += 1
        kinds = view[:, :, 0]  # the agent is at [3, 6] and looks towards [3, 0]
        if self.plan:
            return Decision(self.plan.pop(0))
        if self.cue is None:
            self.cue = KEY if KEY in kinds else BALL if BALL in kinds else None
            if self.cue is None:
                return Decision(FORWARD)
            self.seen_at, self.plan = self.step, [LEFT]
            return Decision(LEFT)
        if kinds[3, 5] != WALL:
            return Decision(FORWARD)
        self.plan = [FORWARD]
        return Decision(LEFT if kinds[1, 6] == self.cue else RIGHT, recalled=[self.seen_at])


MEMORY_ROOM = register_task(
    Task(
        name="memory-room",
        title="Memory room",
        env_id="MiniGrid-MemoryS7-v0",
        register="minigrid",  # importing it makes the environment known to Gymnasium
        wrap="attentiontuner.envs:symbolic_view",  # observations are arrays, not Minigrid's dict
        observation=ObservationSpec("grid", shape=(7, 7, 3), symbols=(11, 6, 3)),
        actions=("left", "right", "forward", "pickup", "drop", "toggle", "done"),
        horizon=245,
        expert=MemoryRoomExpert,
        demonstrations=500,
    )
)

if __name__ == "__main__":
    collect(MEMORY_ROOM, episodes=500, seed=1, out="data/memory-room")
    store = DemoStore.open("data/memory-room")
    print(f"{len(store)} episodes of {store.lengths.mean():.1f} steps; the first: {store[0]}")
    print("it recalled", [f"step {pair.p} at step {pair.q}" for pair in store[0].memory_pairs()])
