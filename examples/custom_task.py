"""A task of your own: Minigrid's memory corridor. An object is shown; at the corridor's fork its twin must be chosen.

With few demonstrations the method to use is recall, which is told their memory pairs; recall-vanilla is its control
without them. From these fifty 100 % and 95 % of 300 episodes are solved. The paper's methods are for its experiments.

python examples/custom_task.py
attentiontuner --import examples/custom_task.py train --data data/memory-room --out runs/memory-room
"""

import attentiontuner as at

LEFT, RIGHT, FORWARD = 0, 1, 2
WALL, KEY, BALL = 2, 5, 6


class MemoryRoomExpert:
    """Turns to the room behind it, notes its object, walks to the fork, and recalls the step at which it saw it."""

    def __init__(self, env):
        self.step, self.cue, self.plan = -1, None, [LEFT, LEFT]

    def decide(self, view):
        self.step += 1
        kinds, recalled = view[:, :, 0], []  # the agent is at [3, 6] and looks towards [3, 0]
        if not self.plan:
            if self.cue is None and (KEY in kinds or BALL in kinds):
                self.cue, self.seen_at, self.plan = KEY if KEY in kinds else BALL, self.step, [LEFT, LEFT]
            elif self.cue is None or kinds[3, 5] != WALL:
                self.plan = [FORWARD]
            else:
                self.plan, recalled = [LEFT if kinds[1, 6] == self.cue else RIGHT, FORWARD], [self.seen_at]
        return at.Decision(self.plan.pop(0), recalled)


# Observations, actions and the longest episode are the environment's; help(at.Task) lists what else can be said.
MEMORY_ROOM = at.register_task(at.Task.from_env("MiniGrid-MemoryS13-v0", name="memory-room", expert=MemoryRoomExpert))


def compare(demonstrations=50, episodes=300, **choices):
    store = at.collect(MEMORY_ROOM, demonstrations, seed=1, out="data/memory-room")
    for method in ("recall", "recall-vanilla"):
        config = at.paper_config(MEMORY_ROOM, method, data=at.facts_of(store), **choices)
        run = at.train(config, store, f"runs/memory-room-{method}").run
        _, summary = at.evaluate(at.load_policy(run), MEMORY_ROOM, episodes)
        print(f"{method}: {summary['success_rate']:.1%} of {episodes} episodes solved")


if __name__ == "__main__":
    compare()
