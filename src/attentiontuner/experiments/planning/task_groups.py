"""Tasks that recipes, scales and the order of running name together."""

ABLATION_TASKS = ("mortar-mayhem", "hallway")
SOLVED_TASKS = ("hallway", "ordering", "mortar-mayhem", "mystery-path")
OTHER_TASKS = ("searing-spotlights", "counting")
ROBOT_TASKS = ("remember-reach", "remember-colour", "blink-count")
POPGYM_GAMES = (
    *("count-recall", "repeat-first", "repeat-previous", "autoencode"),
    *("higher-lower", "concentration", "battleship"),
    *("position-only-pendulum", "noisy-position-only-pendulum"),
)
TMAZES = ("tmaze-300", "tmaze-1000")
MEMORY_TASKS = ("hallway", "counting", *TMAZES)
POPGYM_LEVELS = ("easy", "medium", "hard")
POPGYM_TASKS = tuple(f"popgym-{game}-{level}" for game in POPGYM_GAMES for level in POPGYM_LEVELS)
MINIGRID_TASKS = tuple(f"minigrid-memory-s{size}" for size in ("7", "9", "11", "13", "13-random", "17-random"))
