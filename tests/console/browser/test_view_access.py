"""Pictures can be read by everybody: axe finds nothing, in light and in dark, large and small."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support.console_pages import Complaints, LiveConsole, open_page
from support.console_story import TOPIC

LIVE = (f"/p/{TOPIC}-0", "/timeline")
ALONE = (
    "/lab",
    "/lab/reconcile?step=4",
    "/lab/controller-failover?step=3",
    "/lab/sim?seed=8",
)


def findings(page: Page) -> list[str]:
    return [
        f"{violation['id']}: {node['html']} {node['failureSummary']}"
        for violation in Axe().run(page).response["violations"]
        for node in violation["nodes"]
    ]


def look(page: Page) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert findings(page) == [], theme
    page.set_viewport_size({"width": 390, "height": 844})
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wider <= 0, "the page is wider than a small screen"


@pytest.mark.parametrize("path", LIVE)
def test_a_picture_of_a_live_cluster_can_be_read_by_everybody(
    path: str, live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, live.url + path)
    expect(page.locator(".strips, .lanes").first).to_be_visible()
    look(page)


@pytest.mark.parametrize("path", ALONE)
def test_a_page_of_the_lab_can_be_read_by_everybody(
    path: str, simulator: str, page: Page, complaints: Complaints
) -> None:
    open_page(page, simulator + path)
    look(page)
