"""The console's files: what each page loads, how large that is, and which hosts they name."""

import gzip
import re
from pathlib import Path

from tidelog.console.static_files import compressed, sent

STATIC = Path(__file__).parents[2] / "src" / "tidelog" / "console" / "static"
IMPORTED = re.compile(r"""(?:from|import)\s+"(\.[^"]+\.js)"|"(\./(?:pages|views)/[^"]+\.js)",""")
HOST = re.compile(r"""(?:https?:)?//([\w-]+(?:\.[\w-]+)+)""")
NAMESPACES = {"www.w3.org"}
"""Named by every SVG, asked by nobody."""


def gzipped(*paths: Path) -> int:
    """What a browser downloads: each file by itself, as the console sends it."""
    return sum(len(compressed(path, path.stat().st_mtime_ns)) for path in paths)


def as_one_stream(*paths: Path) -> int:
    """What they would weigh if they came together."""
    return len(gzip.compress(b"".join(sent(path, path.stat().st_mtime_ns) for path in paths), 9))


def scripts() -> list[Path]:
    return sorted(STATIC.rglob("*.js"))


def loaded_by(entry: Path) -> list[Path]:
    """A module and all that it imports at once; what is imported later does not count."""
    found: list[Path] = []
    ahead = [entry]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.append(path)
        for near, _ in IMPORTED.findall(path.read_text("utf-8")):
            if near:
                ahead.append((path.parent / near).resolve())
    return found


def page_modules() -> list[Path]:
    """What the router opens."""
    table = (STATIC / "lib" / "router.js").read_text("utf-8")
    names = sorted({late for _, late in IMPORTED.findall(table) if late})
    return [(STATIC / name).resolve() for name in names]


def outside_hosts() -> dict[str, set[str]]:
    """File → hosts that it names, but for namespaces."""
    named = {}
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            hosts = set(HOST.findall(path.read_text("utf-8"))) - NAMESPACES
            if hosts:
                named[path.name] = hosts
    return named
