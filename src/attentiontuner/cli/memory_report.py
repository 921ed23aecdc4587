"""`attentiontuner memory-report`."""

from pathlib import Path

from tyro.conf import Positional

from attentiontuner.cli.values import check_device


def memory_report(data: Positional[Path], out: Path, count: int = 20, seed: int = 0, device: str | None = None) -> None:
    """Say which steps of a data set need a memory, of what, and which demonstrations to annotate first.

    No annotation is needed or used. Stopped, the same command goes on. OUT/index.html is the report, one page that
    stands alone; OUT/recommended.json has the demonstrations with suggested pairs and reasons.

    Args:
        data: folder of the data set.
        out: folder of the report: a new one, or one to go on with.
        count: demonstrations to recommend.
        seed: fixes everything drawn.
        device: cpu, cuda or cuda:N; a GPU if there is one.
    """
    from attentiontuner.core.errors import UserError

    if count < 1:
        raise UserError(f"--count {count}: 1 or more")
    check_device(device)
    from attentiontuner.insight.memory_report import memory_report as write_report
    from attentiontuner.insight.memory_report import studio_command
    from attentiontuner.runs.devices import choose_device

    findings = write_report(data, out, seed=seed, device=choose_device(device), count=count)
    print(findings.headline)
    for reason in findings.reasons:
        print(f"- {reason}")
    print(f"{out / 'index.html'}")
    if findings.recommended:
        print(f"To annotate them in this order: {studio_command(data, out)}")
