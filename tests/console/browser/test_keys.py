"""The console is worked with the keyboard alone, and its keys are the reader's to change."""

from playwright.sync_api import Page, expect

from support.console_pages import Complaints, LiveConsole, open_page


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
