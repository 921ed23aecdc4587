"""The pictures of one data set, kept while they are looked at."""

import threading
from functools import lru_cache

from attentiontuner.studio.desk import Desk, Missing
from attentiontuner.studio.sprites import SHEET_CELLS, Sprites, draw_sheet, glance, large_frame, sprites_of
from attentiontuner.viz.pictures import at_steps

KEPT_DEMONSTRATIONS = 32
KEPT_SHEETS = 64
KEPT_GLANCES = 1024


class Gallery:
    """Sprite sheets and large frames of the demonstrations of one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._drawing = threading.Lock()
        self._kept_sprites = lru_cache(KEPT_DEMONSTRATIONS)(self._find_sprites)
        self._kept_sheet = lru_cache(KEPT_SHEETS)(self._draw_sheet)
        self.glance = lru_cache(KEPT_GLANCES)(self._draw_glance)
        """A few frames of one demonstration side by side, as a PNG."""

    def sprites(self, episode: int) -> Sprites:
        """Where each step of one demonstration is on its sheets."""
        with self._drawing:
            return self._kept_sprites(episode)

    def sheet(self, episode: int, number: int) -> bytes:
        """One sprite sheet as a PNG; two requests for it at once draw it once."""
        with self._drawing:
            sheets = -(-len(self._kept_sprites(episode).first) // SHEET_CELLS)
            if not 0 <= number < sheets:
                raise Missing(f"demonstration {episode} has no sheet {number}: it has {sheets}, counted from 0")
            return self._kept_sheet(episode, number)

    def frame(self, episode: int, step: int) -> bytes:
        """One step as a PNG for the large view."""
        length = self._desk.length(episode)
        if not 0 <= step < length:
            raise Missing(f"demonstration {episode} has no step {step}: it has {length}, counted from 0")
        observations = self._desk.demonstration(episode).observations
        return large_frame(self._desk.store.observation, at_steps(observations, step), bars=False)

    def draw_ahead(self, episode: int) -> None:
        """Draw in the background what the page will probably ask for next; nothing where there is no such episode."""

        def draw() -> None:
            if episode < len(self._desk.store):
                self.sheet(episode, 0)

        threading.Thread(target=draw, daemon=True).start()

    def _find_sprites(self, episode: int) -> Sprites:
        return sprites_of(self._desk.store.observation, self._desk.demonstration(episode).observations)

    def _draw_sheet(self, episode: int, number: int) -> bytes:
        observations = self._desk.demonstration(episode).observations
        return draw_sheet(self._desk.store.observation, observations, self._kept_sprites(episode), number)

    def _draw_glance(self, episode: int) -> bytes:
        demonstration = self._desk.demonstration(episode)
        return glance(self._desk.store.observation, demonstration.observations, len(demonstration))
