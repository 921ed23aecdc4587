"""`attentiontuner annotate`."""

from pathlib import Path

import tyro

from attentiontuner.cli.studio_options import require_studio


def annotate(
    data: tyro.conf.Positional[Path],
    annotator: str = "human",
    suggest: Path | None = None,
    threshold: float = 0.1,
    suggestions: bool = True,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Open a page on this machine where people mark which past steps a decision used.

    Every change is saved at once under the annotator's name in the data set. `train --annotator NAME` learns from it,
    `inspect` says how far it is.

    Args:
        data: folder of the data set.
        annotator: name of who annotates; the page can change it.
        suggest: a trained run's folder; the steps its attention recalls are suggested.
        threshold: attention weight from which `--suggest` counts a step as recalled.
        suggestions: suggest nothing at all, for labels that must not be influenced.
        host: address to listen on; any but the loopback address lets others on the network in who have the token.
        port: port to listen on; 8737 if not given, or a free one where that is taken.
        browser: only print the address.
    """
    require_studio()
    from attentiontuner.core.errors import UserError
    from attentiontuner.demos.annotations import check_annotator
    from attentiontuner.demos.store.reader import DemoStore
    from attentiontuner.runs.run import Run
    from attentiontuner.studio.desk import Desk
    from attentiontuner.studio.server import create_app, serve
    from attentiontuner.studio.suggest import Suggester

    check_annotator(annotator)
    if len(DemoStore.open(data)) == 0:
        raise UserError(f"{data} holds no demonstrations yet: record some with `attentiontuner play` or `collect`")
    if suggest is not None:
        try:
            Run.open(suggest)
        except UserError as error:
            raise UserError(f"--suggest {error}") from error
    desk = Desk(data)
    suggester = Suggester(desk, suggest, threshold, enabled=suggestions)
    serve(create_app(desk, annotator=annotator, suggester=suggester), host=host, port=port, open_browser=browser)
