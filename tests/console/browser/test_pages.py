"""Every page opens, in both themes and on a small screen, and nobody has anything to complain."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support.console_pages import Complaints, LiveConsole, console_of, open_page, settled
from support.console_story import GROUP, TOPIC

PAGES = {
    "/": "Overview",
    "/topics": "Topics",
    f"/topics/{TOPIC}": TOPIC,
    f"/topics/{TOPIC}?tab=records": TOPIC,
    f"/topics/{TOPIC}?tab=produce": TOPIC,
    f"/topics/{TOPIC}?tab=configs": TOPIC,
    f"/topics/{TOPIC}/records?partition=0&from=earliest": f"Records of {TOPIC}",
    "/groups": "Groups",
    f"/groups/{GROUP}": GROUP,
    "/brokers": "Brokers",
    "/b/1": "Broker 1",
    "/controller": "Controller",
    "/chaos": "Chaos",
    "/metrics-view": "Metrics",
    "/help": "Help",
    "/login": "Sign in",
}
POLLED_PAGES = ("/", "/topics", f"/topics/{TOPIC}", f"/groups/{GROUP}", "/b/1", "/controller")
SMALL = {"width": 390, "height": 844}


def findings(page: Page, *rules: str) -> str:
    """What axe has to say by these rules (all), with the place and the reason."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    lines = []
    for violation in Axe().run(page, options=options).response["violations"]:
        lines += [
            f"{violation['id']}: {node['html']}\n{node['failureSummary']}"
            for node in violation["nodes"]
        ]
    return "\n".join(lines)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_and_can_be_read_by_everybody(
    path: str, live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, live.url + path)
    expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[path])
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert not findings(page), theme
    page.set_viewport_size(SMALL)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} pixels too wide for a small screen"


def test_the_inspection_finds_what_it_must_find(page: Page) -> None:
    page.set_content("<html lang=en><title>x</title><main><h1 style='color:#eee'>pale</h1></main>")
    assert "color-contrast" in findings(page, "color-contrast")
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><input></main>")
    assert "label" in findings(page)


def test_on_a_small_screen_the_navigation_is_behind_a_button(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    page.set_viewport_size(SMALL)
    open_page(page, live.url)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")


def test_of_any_other_kafka_the_pages_show_what_can_be_asked_for(
    live: LiveConsole, page: Page, complaints: Complaints, tmp_path: Path
) -> None:
    with console_of(tmp_path, "-b", live.cluster.bootstrap_servers) as url:
        for path in POLLED_PAGES:
            open_page(page, url + path)
            expect(page.get_by_text("This cluster sends no events")).to_be_visible()
        open_page(page, f"{url}/metrics-view")
        expect(page.get_by_text("Nothing is measured yet")).to_be_visible()
        page.goto("about:blank")  # the console may stop without anybody complaining


def test_an_address_without_a_page_says_so_and_names_a_way_on(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    page.goto(f"{live.url}/nowhere")
    expect(page.get_by_text("There is no page /nowhere.")).to_be_visible()
    page.get_by_role("link", name="Topics").click()
    settled(page)


def test_what_is_not_there_is_said_in_plain_words(live: LiveConsole, page: Page) -> None:
    page.goto(f"{live.url}/topics/nothing-here")
    expect(page.get_by_role("alert")).to_contain_text("nothing-here")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    open_page(page, f"{live.url}/topics?search=nothing-here")
    expect(page.get_by_text("No topic has “nothing-here” in its name")).to_be_visible()


@pytest.mark.parametrize(
    ("states", "summary"),
    [
        ([], "0 groups"),
        (["OK", "OK"], "2 groups · all keep up"),
        (["OK", None], "2 groups · 1 not known yet"),
        (["STOP", None, "OK"], "3 groups · 1 not well · 1 not known yet"),
    ],
)
def test_groups_keep_up_only_if_that_is_known_of_all(
    simulator: str, page: Page, states: list[str | None], summary: str
) -> None:
    rows = [
        {"group": f"group-{number}", "state": "Empty", "burrow": state}
        for number, state in enumerate(states)
    ]
    page.route("**/api/groups", lambda route: route.fulfill(json=rows))
    page.goto(f"{simulator}/groups")
    expect(page.locator(".facts")).to_have_text(summary)


def test_the_theme_that_was_chosen_is_kept(live: LiveConsole, page: Page) -> None:
    open_page(page, live.url)
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
