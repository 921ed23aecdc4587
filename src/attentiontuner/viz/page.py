"""The frame of an HTML page that stands alone: its style is inside, and nothing is loaded from elsewhere."""

import base64
import html
from collections.abc import Sequence

_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light; --ink: #1b1b1f; --soft: #5c5c66; --line: #d9d9df; --paper: #fff; --ground: #f4f4f6; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 2rem 1.5rem 4rem; background: var(--paper); }
h1 { font-size: 1.7rem; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { max-width: 75ch; margin: .4rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
thead th { border-bottom: 2px solid var(--ink); }
tbody tr:has(td:first-child:empty) td { color: var(--soft); }
figure { margin: 1.2rem 0; }
img, video { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .3rem; }
@media print { body, main { background: #fff; } figure, table { break-inside: avoid; } }
"""

_DARK = """
:root { color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ec; --soft: #a6a6b0; --line: #3c3c44; --paper: #1c1c20; --ground: #131316; }
}
"""


def data_url(kind: str, content: bytes) -> str:
    """A picture or film of that type, such as `image/png`, as an address that has it inside."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """A table of texts; `name` is its class."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    kind = f' class="{name}"' if name else ""
    return f"<table{kind}>\n<thead>{line(head, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table>"


def page(title: str, body: str, style: str = "", dark: bool = False) -> str:
    """The whole page, with more `style`; `dark` where it shall follow people who prefer that."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}{_DARK if dark else ''}{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{html.escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )
