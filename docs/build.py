"""`make docs`: the documentation site, built from the pages as GitHub shows them, the notebook and docstrings.

The pages keep their places (README.md, docs/, results/README.md), and with them every relative link. What they link to
is copied along, so that the site links to nothing outside itself.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attentiontuner

ROOT = Path(__file__).parent.parent
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"  # as zensical.toml says
NOTEBOOK = Path("examples") / "first_hour.ipynb"
LINK = re.compile(r"\]\(([^)#\s]+)")


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in with_linked([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        there = PAGES / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)
    write_notebook(ROOT / NOTEBOOK, PAGES / NOTEBOOK.with_suffix(".md"))
    (PAGES / "reference.md").write_text(reference(), encoding="utf-8")
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    if broken := sorted(broken_links(SITE)):
        sys.exit("\n".join(f"broken: {link}" for link in broken))
    print(f"Open {SITE / 'index.html'}")


def with_linked(pages: list[Path]) -> list[Path]:
    """`pages` and every file of the repository that can be reached from them by relative links."""
    found = list(pages)
    for page in found:  # grows on the way
        if page.suffix == ".md":
            targets = [(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))]
            found += [path for path in dict.fromkeys(targets) if path.is_file() and path not in found]
    return found


def write_notebook(notebook: Path, page: Path) -> None:
    """The notebook as a page: its cells and what they show, but for messages on stderr; pictures beside it."""
    parts: list[str] = []
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            parts += shown(output, page.with_name(f"{page.stem}-{number}"))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def shown(output: dict[str, Any], picture: Path) -> Iterator[str]:
    """What one output of a cell puts on the page: text, or a picture, written to `picture` with its ending."""
    if output.get("name") == "stdout":
        yield f"```\n{''.join(output['text'])}```"
    for kind, content in output.get("data", {}).items():
        if kind.startswith("image/"):
            path = picture.with_suffix("." + kind.removeprefix("image/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode("".join(content)))
            yield f"![What the cell above shows]({path.name})"


def reference() -> str:
    """A page that names everything public once; mkdocstrings puts the docstrings in."""
    names = [name for name in attentiontuner.__all__ if not name.startswith("_")]
    head = "# Reference\n\nEverything that `import attentiontuner` offers. `help(attentiontuner.Task)` says the same.\n"
    return head + "".join(f"\n::: attentiontuner.{name}\n" for name in names)


class Links(HTMLParser):
    """The links of a page, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        self.places |= {value for name in ("id", "name") if (value := given.get(name))}


def broken_links(site: Path) -> Iterator[str]:
    """Every link of the built pages that leads nowhere inside the site."""
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            lost = bool(parts.fragment) and target in pages and unquote(parts.fragment) not in pages[target].places
            if lost or not target.is_file():
                yield f"{page.relative_to(site)} -> {link}"


if __name__ == "__main__":
    main()
