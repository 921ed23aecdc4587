"""`attentiontuner annotate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from attentiontuner.cli.studio_options import require_studio
from attentiontuner.core.errors import UserError

if TYPE_CHECKING:
    from attentiontuner.demos.store.reader import DemoStore
    from attentiontuner.insight.recommendations import Recommendations


def annotate(
    data: Positional[Path],
    annotator: str = "human",
    suggest: Path | None = None,
    threshold: float | None = None,
    suggestions: bool = True,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    by: Path | None = None,
    name: Annotated[str | None, arg(name="as", metavar="NAME")] = None,
) -> None:
    """Open a page on this machine where people mark which past steps a decision used.

    Every change is saved at once under the annotator's name in the data set. `train --annotator NAME` learns from it,
    `inspect` says how far it is.

    With --by RUN --as NAME nothing is opened: what that run recalls becomes the labels of an annotator of its own, with
    how sure it is, and never in place of a person's.

    Args:
        data: folder of the data set.
        annotator: name of who annotates; the page can change it.
        suggest: a trained run's folder, whose recalled steps are suggested; or a memory report's, which also says which
            demonstrations to annotate first, and why.
        threshold: attention weight from which a step counts as recalled; 0.1 for `--suggest`, 0.5 for `--by`.
        suggestions: suggest nothing at all, for labels that must not be influenced; a report's order stays.
        host: address to listen on; any but the loopback address lets others on the network in who have the token.
        port: port to listen on; 8737 if not given, or a free one where that is taken.
        browser: only print the address.
        by: a trained run's folder that annotates all demonstrations by itself.
        name: the name under which it does.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"--threshold {threshold}: give a weight between 0 and 1")
    if by is not None or name is not None:
        return _by_run(data, by, name, threshold)
    require_studio()
    from attentiontuner.demos.annotations import check_annotator
    from attentiontuner.demos.store.reader import DemoStore
    from attentiontuner.studio.desk import Desk
    from attentiontuner.studio.server import create_app, serve
    from attentiontuner.studio.suggest import Suggester

    check_annotator(annotator)
    store = DemoStore.open(data)
    if len(store) == 0:
        raise UserError(f"{data} holds no demonstrations yet: record some with `attentiontuner play` or `collect`")
    run, report = _suggesting(suggest, store, threshold)
    desk = Desk(data)
    suggester = Suggester(desk, run, 0.1 if threshold is None else threshold, enabled=suggestions, report=report)
    serve(create_app(desk, annotator=annotator, suggester=suggester), host=host, port=port, open_browser=browser)


def _suggesting(
    folder: Path | None, store: "DemoStore", threshold: float | None
) -> "tuple[Path | None, Recommendations | None]":
    """The run, or the memory report, that suggests pairs for the data set."""
    from attentiontuner.insight.recommendations import RECOMMENDED, read_recommendations
    from attentiontuner.runs.run import Run

    if folder is None:
        return None, None
    try:
        if (folder / RECOMMENDED).exists():
            if threshold is not None:
                raise UserError(f"{folder} is a memory report, which has no attention: leave out --threshold")
            return None, read_recommendations(folder, store)
        if folder.is_dir() and not (folder / "config.json").exists():
            raise UserError(f"{folder} holds neither a trained run (config.json) nor a memory report ({RECOMMENDED})")
        trained_on, _ = Run.open(folder).task()
    except UserError as error:
        raise UserError(f"--suggest {error}") from error
    if trained_on != store.task:
        raise UserError(
            f"--suggest {folder} was trained on {trained_on}, but {store.path} holds {store.task}: give another run"
        )
    return folder, None


def _by_run(data: Path, by: Path | None, name: str | None, threshold: float | None) -> None:
    from attentiontuner.core.wording import counted
    from attentiontuner.demos.annotations import check_annotator
    from attentiontuner.demos.store.reader import DemoStore
    from attentiontuner.runs.run import Run

    if by is None or name is None:
        given, missing = ("--by", "--as NAME") if name is None else ("--as", "--by RUN")
        raise UserError(f"{given} needs {missing}: who annotates, and under which name")
    check_annotator(name)
    DemoStore.open(data)
    Run.open(by)
    from attentiontuner.evaluation.annotating import annotate_by_run

    made = annotate_by_run(data, by, name, 0.5 if threshold is None else threshold)
    episodes, pairs = counted(made.episodes, "episode", form=","), counted(made.pairs, "pair", form=",")
    print(f"{data}: annotator {name} has {episodes} with {pairs}, as {by} recalls them")
