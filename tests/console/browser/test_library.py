"""The small library under the pages: elements that are changed in place, and streams."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from support.console_pages import LiveConsole, open_page

DRAW = """async ([first, second]) => {
  const { h, render } = await import("/static/lib/dom.js");
  const root = document.createElement("div");
  document.body.append(root);
  const build = ([tag, props, ...children]) =>
    h(tag, props, ...children.map((child) => (Array.isArray(child) ? build(child) : child)));
  render(root, build(first));
  root.querySelector("input")?.focus();
  const before = [...root.querySelectorAll("li")];
  render(root, build(second));
  const after = [...root.querySelectorAll("li")];
  return {
    text: root.textContent,
    typing: document.activeElement?.tagName ?? "",
    kept: after.map((item) => before.indexOf(item)),
  };
}"""

PARSE = """async (pieces) => {
  const { parser } = await import("/static/lib/sse.js");
  const heard = [];
  const feed = parser((message) => heard.push(message));
  for (const piece of pieces) feed(piece);
  return heard;
}"""


@pytest.fixture(scope="module")
def library(browser: Browser, live: LiveConsole) -> Iterator[Page]:
    page = browser.new_page()
    open_page(page, f"{live.url}/help")
    yield page
    page.close()


def test_who_types_keeps_the_focus_when_something_appears_before_the_field(library: Page) -> None:
    first = ["div", {}, None, ["input", {}]]
    second = ["div", {}, ["p", {}, "There is news."], ["input", {}]]
    drawn = library.evaluate(DRAW, [first, second])
    assert (drawn["text"], drawn["typing"]) == ("There is news.", "INPUT")


def test_items_with_a_key_stay_themselves_when_others_come_and_go(library: Page) -> None:
    items = [["li", {"key": name}, name] for name in "abc"]
    moved = [["li", {"key": name}, name] for name in "bcd"]
    drawn = library.evaluate(DRAW, [["ul", {}, *items], ["ul", {}, *moved]])
    assert drawn["text"] == "bcd"
    assert drawn["kept"] == [1, 2, -1]


def test_messages_are_whole_however_their_bytes_arrive(library: Page) -> None:
    stream = ': hello\n\nid: n1:7\nevent: frame\ndata: {"a":\ndata: 1}\n\ndata: 2\n\ndata: 3'
    whole = [
        {"event": "frame", "data": {"a": 1}, "id": "n1:7"},
        {"event": "message", "data": 2, "id": "n1:7"},
    ]
    assert library.evaluate(PARSE, [stream]) == whole
    assert library.evaluate(PARSE, list(stream)) == whole
