"""Three pages look as their pictures do, in light and in dark."""

import pytest
from playwright.sync_api import Page

from support.console_pages import Complaints
from support.console_pictures import (
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
HARMLESS = {
    "other letters": "* { font-family: 'DejaVu Serif', serif !important }",
    "thinner letters": "* { font-weight: 400 !important; -webkit-font-smoothing: antialiased }",
}
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


@pytest.mark.parametrize("theme", THEMES)
def test_a_changed_look_is_found_and_other_letters_are_not(
    simulator: str, page: Page, theme: str
) -> None:
    before = take(page, simulator, "reconcile", theme)
    found = {}
    for name, style in (CHANGES | HARMLESS).items():
        restyle(page, style)
        found[name] = compare(page, before, photograph(page, "reconcile"))
        restyle(page, "")
    print({name: round(each.share, 4) for name, each in found.items()})
    assert {name for name, each in found.items() if not each.is_allowed} == set(CHANGES)
