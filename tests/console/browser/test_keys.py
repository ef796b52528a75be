"""The console is worked with the keyboard alone, and its keys are the reader's to change."""

import pytest
from playwright.sync_api import Page, expect

from support.console_pages import Complaints, LiveConsole, open_page
from support.console_story import GROUP, TOPIC

EVERY_PAGE = (
    "/",
    "/topics",
    f"/topics/{TOPIC}?tab=produce",
    f"/topics/{TOPIC}/records?partition=0&from=earliest",
    f"/p/{TOPIC}-0",
    "/timeline",
    "/groups",
    f"/groups/{GROUP}",
    "/brokers",
    "/controller",
    "/chaos",
    "/metrics-view",
    "/lab",
    "/lab/reconcile?step=4",
    "/help",
    "/login",
)
LOOK = """(at) => [at, ...at.querySelectorAll("*")].map((each) => {
    const { outline, boxShadow, stroke, strokeWidth } = getComputedStyle(each);
    return [outline, boxShadow, stroke, strokeWidth].join();
  }).join()"""
"""What can tell where the focus is: of a control, or of a part of it, as in a drawing."""
CONTROLS = f"""() => {{
  const look = {LOOK};
  document.activeElement.blur();  // of a form that asks for a name
  const all = document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex='0']");
  return [...all].filter((each) => each.checkVisibility() && !each.disabled && each.tabIndex >= 0)
    .map((each, number) => {{
      each.dataset.stop = String(number);
      each.dataset.look = look(each);
      return each.outerHTML.slice(0, 120);
    }});
}}"""
STANDS_AT = f"""() => {{
  const look = {LOOK};
  const at = document.activeElement;
  return [at.dataset?.stop ?? null, look(at) !== at.dataset?.look, at.outerHTML.slice(0, 120)];
}}"""
STANDING = "[...document.querySelectorAll('[data-stop]')].map((each) => Number(each.dataset.stop))"
MOVING = "document.getAnimations().filter((each) => each.playState === 'running').length"


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def test_keys_lead_from_page_to_page(live: LiveConsole, page: Page, complaints: Complaints) -> None:
    open_page(page, live.url)
    page.keyboard.type("gb")
    heading(page, "Brokers")
    page.keyboard.type("/")
    heading(page, "Topics")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("gb")  # typed into the search field, not a command
    expect(page.get_by_role("searchbox")).to_have_value("gb")
    heading(page, "Topics")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("Enter")
    heading(page, "orders")
    page.get_by_role("tab", name="Partitions").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Records")).to_be_focused()
    expect(page.get_by_role("button", name="Live tail")).to_be_visible()


def test_the_first_stop_of_the_tab_key_skips_the_navigation(live: LiveConsole, page: Page) -> None:
    open_page(page, live.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_a_key_can_be_changed_and_stays_so(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, live.url)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    change = dialog.get_by_role("button", name="Change the key for: go to Groups")
    change.click()
    page.keyboard.press("/")
    expect(dialog.get_by_text("/ already means “search”")).to_be_visible()
    change.click()
    page.keyboard.press("q")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.reload()
    heading(page, "Overview")
    page.keyboard.press("q")
    heading(page, "Groups")


@pytest.mark.long
@pytest.mark.parametrize("path", EVERY_PAGE)
def test_the_tab_key_comes_to_every_control_and_shows_where_it_is(
    path: str, live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_page(page, live.url + path)
    assert page.evaluate(MOVING) == 0, "reduced motion"
    wanted = dict(enumerate(page.evaluate(CONTROLS)))
    page.get_by_role("link", name="Skip to the page").focus()
    reached = set()
    for _ in range(2 * len(wanted) + 10):
        stop, shows, what = page.evaluate(STANDS_AT)
        if stop is not None:
            assert shows, f"nobody sees that the focus is on {what}"
            reached.add(int(stop))
        page.keyboard.press("Tab")
        if len(reached) == len(wanted):
            break
    # The focus chooses a moment of the timeline, which may have fewer links than the first one.
    missed = set(page.evaluate(STANDING)) - reached
    assert not missed, [wanted[stop] for stop in missed]
