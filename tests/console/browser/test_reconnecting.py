"""A connection that breaks is said to be broken, and nothing that happened meanwhile is missed."""

from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from support.console_pages import GUARD_MS, LiveConsole, open_page
from support.cut_line import CutLine

WATCH = """async (url) => {
  const { openStream } = await import("/static/lib/sse.js");
  window.heard = [];
  window.stream = openStream(url, ({ event, data }) => {
    if (event === "gap") window.heard.push({ gap: data });
    for (const each of data.events ?? []) window.heard.push(each);
  });
}"""


HEARD = """([begin, within]) => new Promise((resolve, reject) => {
  const until = Date.now() + within;
  const look = () => {
    if (window.heard.some((each) => each.sentence?.startsWith(begin))) resolve();
    else if (Date.now() > until) reject(new Error(`nothing was heard of ${begin}`));
    else setTimeout(look, 50);
  };
  look();
})"""
"""Playwright's own wait evaluates strings, which the policy of the pages forbids."""


def test_what_happens_while_the_connection_is_cut_is_shown_when_it_is_back(
    live: LiveConsole, page: Page
) -> None:
    """Without complaints on purpose: a browser reports every request that finds nobody."""
    port = urlsplit(live.url).port
    assert port is not None
    with CutLine(port) as line:
        open_page(page, f"http://127.0.0.1:{line.port}/")
        page.evaluate(WATCH, "/api/stream?watch=timeline")
        live.cluster.topic("before-the-cut")
        page.evaluate(HEARD, ["before-the-cut-0", GUARD_MS])
        line.cut()
        expect(page.get_by_text("Reconnecting…")).to_be_visible()
        live.cluster.topic("during-the-cut")
        line.join()
        expect(page.get_by_text("Reconnecting…")).to_have_count(0)
        page.evaluate(HEARD, ["during-the-cut-0", GUARD_MS])
        heard = page.evaluate("heard")
        assert not [each for each in heard if "gap" in each], "the console still had the events"
        numbers = [(each["node"], each["stream"], each["number"]) for each in heard]
        assert len(numbers) == len(set(numbers)), "an event was told twice"
        expect(page.get_by_text("during-the-cut-0").first).to_be_visible()
