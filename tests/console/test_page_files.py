"""The pages stay small and ask nobody but the console."""

from support.console_files import (
    HOST,
    STATIC,
    as_one_stream,
    gzipped,
    loaded_by,
    outside_hosts,
    page_modules,
    scripts,
)
from tidelog.console.static_files import lean

ALL_SCRIPTS_MAX_BYTES = 60 * 1024
FILE_BY_FILE_MAX_BYTES = 64 * 1024
"""What a browser downloads that opens every page once. Small files compress less well."""
COMMENTED = b"""\
// Says why.
export function one() {
  /**
   * Two lines of
   * it.
   */
  return "// not a comment"; // because
}
"""


def test_all_scripts_together_fit_into_sixty_kilobytes() -> None:
    assert as_one_stream(*scripts()) <= ALL_SCRIPTS_MAX_BYTES
    assert gzipped(*scripts()) <= FILE_BY_FILE_MAX_BYTES


def test_comments_stay_at_home_and_lines_keep_their_numbers() -> None:
    sent = lean(COMMENTED).split(b"\n")
    assert len(sent) == len(COMMENTED.split(b"\n"))
    assert sent[1] == b"export function one() {"
    assert sent[6] == b'return "// not a comment"; // because'
    assert not any(sent[2:6])
    assert sent[0] == b""


def test_no_text_of_a_script_spans_lines_or_it_would_be_taken_for_a_comment() -> None:
    spanning = [
        f"{path.name}: {line.strip()}"
        for path in scripts()
        for line in path.read_text("utf-8").splitlines()
        if line.replace('"`"', "").count("`") % 2 and not line.lstrip().startswith(("*", "//"))
    ]
    assert not spanning


def test_the_router_names_every_page_and_each_finds_what_it_imports() -> None:
    own = {path for path in page_modules() if path.parent.name == "pages"}
    assert own == set((STATIC / "pages").glob("*.js"))
    for page in own:
        missing = [path.name for path in loaded_by(page) if not path.is_file()]
        assert not missing, f"{page.name} imports {missing}"


def test_no_file_names_an_outside_host() -> None:
    assert HOST.findall('import "https://cdn.example.com/x.js"') == ["cdn.example.com"]
    assert outside_hosts() == {}
