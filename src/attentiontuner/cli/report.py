"""`attentiontuner report`: tables, figures and a page from records."""

from pathlib import Path

from attentiontuner.core.errors import UserError


def report(
    records: Path = Path("results"),
    out: Path | None = None,
    scale: str = "",
    films: tuple[Path, ...] = (),
    times: tuple[Path, ...] = (),
    pages: tuple[Path, ...] = (),
) -> None:
    """Make the report of a folder of records: Markdown, figures, and one HTML page that stands alone.

    Args:
        records: folder of the records.
        out: where README.md, figures/ and index.html go (the records' folder).
        scale: whose records are shown: paper, small, demo or smoke (the largest there is).
        films: recall films to embed in the page.
        times: data sets that people played and annotated: the time they took, in place of the paper's.
        pages: also replace the tables in these Markdown files, each between its two marker lines.
    """
    from attentiontuner.experiments.planning.scales import get_scale

    if not records.is_dir():
        raise UserError(f"--records {records}: there is no such folder; give the one that `reproduce` wrote to")
    for page in pages:
        if not page.is_file():
            raise UserError(f"--pages {page}: there is no such file")
    if scale:
        get_scale(scale)
    from attentiontuner.experiments.reporting.report import build_report
    from attentiontuner.experiments.reporting.value import studio_times

    print(build_report(records, out or records, films, scale=scale or None, times=studio_times(times), pages=pages))
