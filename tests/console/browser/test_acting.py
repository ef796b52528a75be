"""What people do in the pages happens in the cluster."""

from playwright.sync_api import BrowserContext, Page, expect

from support.console_pages import Complaints, LiveConsole, nodes_on_disk, open_page
from support.console_story import GROUP, TOPIC


def test_a_record_that_is_produced_appears_in_the_live_tail(
    live: LiveConsole, context: BrowserContext, page: Page, complaints: Complaints
) -> None:
    open_page(page, f"{live.url}/topics/{TOPIC}/records?partition=1")
    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_text("Live: the newest record stands first.")).to_be_visible()
    other = context.new_page()
    open_page(other, f"{live.url}/topics/{TOPIC}?tab=produce")
    other.get_by_label("Partition").select_option("1")
    other.get_by_label("Key, empty for none").fill("customer-9")
    other.get_by_label("Value", exact=True).fill('{"order": 4711}')
    other.get_by_label("Headers").fill("trace=b2")
    other.get_by_role("button", name="Produce").click()
    expect(other.locator(".notice")).to_contain_text(f"Written to {TOPIC}-1 at offset")
    record = page.locator("details.record", has_text='{"order": 4711}')
    expect(record).to_be_visible()
    record.click()
    expect(record.get_by_text("leader epoch 0")).to_be_visible()
    expect(record.get_by_text("b2")).to_be_visible()


def test_records_of_transactions_are_shown_for_what_they_are(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, f"{live.url}/topics/{TOPIC}/records?partition=0&from=earliest")
    expect(page.locator("details.record", has_text="never mind")).to_contain_text("txn aborted")
    expect(page.get_by_text("abort marker")).to_be_visible()
    page.get_by_role("button", name="hex").click()
    expect(page.get_by_text(b"never mind".hex())).to_be_visible()


def test_a_seek_shows_its_plan_before_it_moves_the_group(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, f"{live.url}/groups/{GROUP}")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("3 partitions would move.")).to_be_visible()
    page.get_by_role("button", name="Apply the plan").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply the plan").click()
    expect(page.locator(".notice")).to_contain_text("Moved 3 partitions.")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("Nothing would move")).to_be_visible()


def test_a_topic_is_created_and_deleted_only_by_its_name(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, f"{live.url}/topics")
    page.keyboard.press("n")
    page.get_by_label("Name", exact=False).first.fill("short-lived")
    page.get_by_label("Configs").fill("retention.ms=60000")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("short-lived")
    page.get_by_role("tab", name="Configs").click()
    expect(page.get_by_role("row", name="retention.ms 60000")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete the topic")).to_be_disabled()
    dialog.get_by_role("textbox").fill("short-lived")
    dialog.get_by_role("button", name="Delete the topic").click()
    expect(page.locator(".notice")).to_contain_text("Topic short-lived is deleted.")


def test_a_broker_that_is_killed_in_the_page_is_seen_down_and_comes_back(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    victim = live.cluster.brokers[-1]
    open_page(page, f"{live.url}/chaos")
    try:
        page.get_by_role("button", name=f"Kill broker {victim}").click()
        fault = page.get_by_role("row", name=f"kill {victim}")
        expect(fault).to_be_visible()
        expect(page.get_by_role("region", name=f"Broker {victim}")).to_contain_text("down")
        assert live.cluster.pid(victim) is None
        page.get_by_role("button", name=f"Undo kill {victim}").click()
        expect(page.get_by_text("No fault is active")).to_be_visible()
        expect(page.get_by_role("region", name=f"Broker {victim}")).to_contain_text("alive")
    finally:  # the console started it; now it is the cluster's again
        nodes_on_disk(live.cluster.data_dir(victim).parents[1]).kill(victim)
        live.cluster.restart(victim)
        live.cluster.wait_ready()


def test_metrics_are_charts_and_tables_of_the_same_numbers(
    live: LiveConsole, page: Page, complaints: Complaints
) -> None:
    open_page(page, f"{live.url}/metrics-view")
    expect(page.get_by_role("img", name="Bytes in and out")).to_be_visible()
    page.get_by_role("button", name="Table of Bytes in and out").click()
    expect(page.get_by_role("region", name="Bytes in and out as a table")).to_contain_text("B/s")
