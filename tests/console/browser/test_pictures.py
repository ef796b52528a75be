"""Three pages look as their pictures do, in light and in dark."""

import pytest
from playwright.sync_api import Page

from support.console_pages import Complaints
from support.console_pictures import (
    ALLOWED,
    DIFFERENCES,
    PAGES,
    THEMES,
    compare,
    photograph,
    picture_of,
    take,
)

CHANGES = {
    "no arrows": ".arrows { display: none }",
    "another leader epoch's colour": ".epoch-0 rect { fill: #b83280 !important }",
    "another background": ".card { background: #f5e6c8 !important }",
    "a narrower page": "main { padding-right: 240px !important }",
    "larger words": "body { font-size: 18px !important }",
}
"""Each has to be found."""
OTHER_LETTERS = ":root { --sans: 'DejaVu Serif', serif !important }"
"""What another browser or another set of fonts would do to a page."""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_as_its_picture_does(
    simulator: str, page: Page, complaints: Complaints, name: str, theme: str
) -> None:
    now = take(page, simulator, name, theme)
    difference = compare(page, picture_of(name, theme).read_bytes(), now)
    if not difference.is_allowed:
        DIFFERENCES.mkdir(parents=True, exist_ok=True)
        left = DIFFERENCES / f"{name}-{theme}.png"
        left.write_bytes(difference.picture)
        pytest.fail(
            f"{PAGES[name][0]} in {theme}: {100 * difference.share:.1f} % looks otherwise, red in "
            f"{left}. If it is meant to: make pictures, and look at what has changed"
        )


def restyle(page: Page, style: str) -> None:
    """Past the policy of our pages, which lets no other style in."""
    page.evaluate(
        """(text) => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(text);
          document.adoptedStyleSheets = [sheet];
        }""",
        style,
    )


def test_a_changed_look_is_found(simulator: str, page: Page) -> None:
    kept = picture_of("reconcile", "light").read_bytes()
    take(page, simulator, "reconcile", "light")
    shares = {}
    for name, style in CHANGES.items():
        restyle(page, style)
        shares[name] = compare(page, kept, photograph(page, "reconcile")).share
    assert min(shares.values()) > 2 * ALLOWED, shares


@pytest.mark.parametrize("name", PAGES)
def test_other_letters_change_no_look(simulator: str, page: Page, name: str) -> None:
    kept = picture_of(name, "light").read_bytes()
    before = take(page, simulator, name, "light")
    restyle(page, OTHER_LETTERS)
    otherwise = photograph(page, name)
    assert otherwise != before
    assert compare(page, kept, otherwise).is_allowed
