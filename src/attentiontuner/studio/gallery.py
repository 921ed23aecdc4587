"""The pictures of one data set, kept while they are looked at."""

import threading
from functools import lru_cache

from attentiontuner.studio.desk import Desk, Missing
from attentiontuner.studio.sprites import SpriteSheet, large_frame, sprite_sheet
from attentiontuner.viz.pictures import at_steps

KEPT_SHEETS = 32


class Gallery:
    """Sprite sheets and large frames of the demonstrations of one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._drawing = threading.Lock()
        self._kept_sheet = lru_cache(KEPT_SHEETS)(self._draw_sheet)

    def sheet(self, episode: int) -> SpriteSheet:
        """The sprite sheet of one demonstration; two requests for it at once draw it once."""
        with self._drawing:
            return self._kept_sheet(episode)

    def frame(self, episode: int, step: int) -> bytes:
        """One step as a PNG for the large view."""
        demonstration = self._desk.demonstration(episode)
        if not 0 <= step < len(demonstration):
            raise Missing(f"demonstration {episode} has no step {step}: it has {len(demonstration)}, counted from 0")
        return large_frame(self._desk.store.observation, at_steps(demonstration.observations, step), bars=False)

    def draw_ahead(self, episode: int) -> None:
        """Draw in the background what the page will probably ask for next; nothing where there is no such episode."""

        def draw() -> None:
            if episode < len(self._desk.store):
                self.sheet(episode)

        threading.Thread(target=draw, daemon=True).start()

    def _draw_sheet(self, episode: int) -> SpriteSheet:
        return sprite_sheet(self._desk.store.observation, self._desk.demonstration(episode).observations)
