"""The pages: files under `static`, and `index.html` for every other address that is no API.

Scripts travel without the words that are for who reads the source: comments that have lines of
their own, and indentation. Lines keep their numbers, and so do the errors that name them.
"""

import gzip
import re
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tidelog.console.refusal import Refused

HOME = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
"""Nothing else lies there."""
TEXTS = (".html", ".js", ".css", ".svg")
COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)$", re.MULTILINE)
INDENTATION = re.compile(rb"^[ \t]+", re.MULTILINE)


async def static_file(request: Request) -> Response:
    name = request.path_params["path"]
    path = (HOME / name).resolve()
    kind = KINDS.get(path.suffix)
    if kind is None or not path.is_relative_to(HOME.resolve()) or not path.is_file():
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no file {name[:80]!r}", "/")
    return unless_known(request, path, kind)


async def page(request: Request) -> Response:
    if request.url.path.startswith("/api"):
        error = f"no {request.url.path[:80]!r} here"
        raise Refused(HTTPStatus.NOT_FOUND, error, "docs/console.md lists the API")
    index = HOME / "index.html"
    if not index.is_file():
        raise Refused(HTTPStatus.NOT_FOUND, "the pages are not installed", "reinstall tidelog")
    return unless_known(request, index, KINDS[".html"])


def unless_known(request: Request, path: Path, kind: str) -> Response:
    """The file, or nothing if the browser has it already. Text goes compressed."""
    status = path.stat()
    answer: Response = FileResponse(path, media_type=kind, stat_result=status)
    headers = {"ETag": answer.headers["etag"]}
    if path.suffix in TEXTS:
        headers["Vary"] = "Accept-Encoding"
        content = sent(path, status.st_mtime_ns)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["ETag"] = headers["ETag"].removesuffix('"') + '-gzip"'
            headers["Content-Encoding"] = "gzip"
            content = compressed(path, status.st_mtime_ns)
        answer = Response(content, media_type=kind)
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": headers["ETag"]})
    answer.headers.update(headers)
    return answer


@lru_cache(maxsize=256)
def compressed(path: Path, modified_ns: int) -> bytes:
    """Of a file as it was then."""
    return gzip.compress(sent(path, modified_ns), mtime=0)


@lru_cache(maxsize=256)
def sent(path: Path, _modified_ns: int) -> bytes:
    content = path.read_bytes()
    return lean(content) if path.suffix == ".js" else content


def lean(script: bytes) -> bytes:
    """No text of our scripts spans lines, so what looks like a comment is one."""
    without = COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), script)
    return INDENTATION.sub(b"", without)
