"""`attentiontuner play`."""

from pathlib import Path

import tyro

from attentiontuner.cli.options import Settings
from attentiontuner.cli.studio_options import require_studio


def play(
    task: tyro.conf.Positional[str],
    out: Path,
    settings: Settings = (),
    player: str = "human",
    seed: int = 0,
    seeds: tuple[int, ...] = (),
    realtime: float | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Open a page on this machine where a person plays a task, and record the episodes as demonstrations.

    One key press is one step. Saved episodes make an ordinary data set, to annotate and to train on.

    Args:
        task: name of the task, see `attentiontuner tasks`.
        out: data set folder; made if it is not there, continued if it is.
        settings: environment settings as name=value, such as length=6.
        player: name under which the playing time is recorded; also the annotator the page starts with.
        seed: data set seed; its environment seeds are played in order.
        seeds: environment seeds to play instead.
        realtime: play in real time at this many steps a second.
        host: address to listen on; any but the loopback address lets others on the network in who have the token.
        port: port to listen on; 8737 if not given, or a free one where that is taken.
        browser: only print the address.
    """
    require_studio()
    from attentiontuner.cli.values import parse_settings
    from attentiontuner.core.errors import UserError
    from attentiontuner.demos.annotations import check_annotator
    from attentiontuner.studio.desk import Desk
    from attentiontuner.studio.play import Player
    from attentiontuner.studio.server import create_app, serve
    from attentiontuner.tasks.task import get_task

    check_annotator(player)
    if realtime is not None and not 0.1 <= realtime <= 60:
        raise UserError(f"--realtime {realtime}: give 0.1 to 60 steps a second")
    person = Player(out, get_task(task, parse_settings(settings)), player, seed, seeds)
    app = create_app(Desk(out), annotator=player, player=person, steps_per_second=realtime)
    try:
        serve(app, host=host, port=port, open_browser=browser)
    finally:
        person.close()
