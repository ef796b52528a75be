"""The pages stay small and ask nobody but the console."""

from support.console_files import (
    HOST,
    STATIC,
    gzipped,
    loaded_by,
    outside_hosts,
    page_modules,
    scripts,
)

ALL_SCRIPTS_MAX_BYTES = 60 * 1024


def test_all_scripts_together_fit_into_sixty_kilobytes() -> None:
    assert gzipped(*scripts()) <= ALL_SCRIPTS_MAX_BYTES


def test_the_router_names_every_page_and_each_finds_what_it_imports() -> None:
    own = {path for path in page_modules() if path.parent.name == "pages"}
    assert own == set((STATIC / "pages").glob("*.js"))
    for page in own:
        missing = [path.name for path in loaded_by(page) if not path.is_file()]
        assert not missing, f"{page.name} imports {missing}"


def test_no_file_names_an_outside_host() -> None:
    assert HOST.findall('import "https://cdn.example.com/x.js"') == ["cdn.example.com"]
    assert outside_hosts() == {}
