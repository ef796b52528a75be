"""The lab in a browser: every story to its end, guesses, forks, free play and seeds."""

import pytest
from playwright.sync_api import Page, expect

from support.console_pages import Complaints, open_page
from tidelog import lab

ENDS = {
    "replicas-and-isr": ("leader 1 · leader epoch 0", "ISR 1,2,3", "LEO 3 LEO 3 LEO 3"),
    "fetch-is-the-ack": ("leader 1 · leader epoch 0", "ISR 1,2,3", "LEO 2 LEO 2 LEO 2"),
    "high-watermark": ("leader 1 · leader epoch 0", "ISR 1,2,3", "LEO 6 LEO 6 LEO 6"),
    "leader-fails": ("leader 2 · leader epoch 1", "ISR 2,3", "LEO 6 LEO 7 LEO 7"),
    "lowered-high-watermark": ("leader 2 · leader epoch 1", "ISR 2,3", "LEO 5 LEO 5 LEO 5"),
    "reconcile": ("leader 103 · leader epoch 1", "ISR 103,102,101", "LEO 7 LEO 7 LEO 7"),
    "rejoin": ("leader 103 · leader epoch 1", "ISR 103,102,101", "LEO 8 LEO 8 LEO 8"),
    "slow-follower": ("leader 1 · leader epoch 0", "ISR 1,2,3", "LEO 4 LEO 4 LEO 4"),
    "preferred-leader": ("leader 1 · leader epoch 2", "ISR 2,3,1", "LEO 3 LEO 3 LEO 3"),
    "acks-and-min-isr": ("leader 1 · leader epoch 2", "ISR 1,2", "LEO 3 LEO 3 LEO 2"),
    "unclean-election": ("leader 3 · leader epoch 2", "ISR 3,1", "LEO 3 LEO 5 LEO 3"),
    "controller-failover": ("active controller", "ISR 103", ""),
    "follower-reads": ("leader 1 · leader epoch 0", "ISR 1,3", "LEO 5 LEO 5 LEO 4"),
}


def test_every_story_has_an_end_that_is_told_here() -> None:
    assert list(ENDS) == [story.name for story in lab.stories()]


@pytest.mark.parametrize("story", lab.stories(), ids=lambda story: story.name)
def test_a_story_is_played_to_its_end(
    page: Page, simulator: str, story: lab.Story, complaints: Complaints
) -> None:
    steps = len(story.chapters)
    open_page(page, f"{simulator}/lab/{story.name}")
    expect(page.locator(".note")).to_contain_text("Simulator.")
    for step, chapter in enumerate(story.chapters, start=1):
        upcoming = str(page.locator(".next").text_content())
        assert chapter.sentence in upcoming
        assert chapter.question in upcoming
        page.keyboard.press("ArrowRight")
        expect(page.locator(".happened h2")).to_have_text(f"Step {step} of {steps}")
    assert story.chapters[-1].sentence in str(page.locator(".happened").text_content())
    expect(page.locator(".next .sentence")).to_have_text(story.saw)
    who, in_sync, ends = ENDS[story.name]
    main = page.locator("main")
    expect(main).to_contain_text(who)
    expect(main).to_contain_text(in_sync)
    assert " ".join(page.locator(".replica-row .leo text").all_text_contents()) == ends
    assert page.locator(".bad-text").count() == 0, "a step came out otherwise than told"


def test_a_follower_that_differs_is_hatched_until_it_has_cut_its_log(
    page: Page, simulator: str, complaints: Complaints
) -> None:
    open_page(page, f"{simulator}/lab/reconcile?step=3")
    follower = page.locator(".replica-row[data-broker='102']")
    expect(follower.locator(".cell.differs")).to_have_count(1)
    expect(page.locator(".legend")).to_contain_text("differs from the leader")
    expect(page.locator(".next .question")).to_have_text("What will 103 answer?")
    page.keyboard.press("ArrowRight")
    expect(follower.locator(".cell.differs:not(.falls)")).to_have_count(0)
    expect(follower).to_contain_text("LEO 5")
    arrows = page.locator(".strips .message:not(.old)")
    expect(arrows).to_have_count(3)
    told = [arrow.get_attribute("aria-label") for arrow in arrows.all()]
    starts = [str(label).split(". ")[0] for label in told]
    assert starts == [
        "102 → 103: Fetch offset 6, last epoch 0",
        "103 → 102: epoch 0 ends at 5",
        "102: truncated 6 → 5",
    ]
    arrows.nth(1).focus()
    expect(page.locator(".explain")).to_contain_text("where epoch 0 ends in its own log")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".happened h2")).to_have_text("Step 3 of 8")
    expect(follower).to_contain_text("LEO 6")
    assert page.url.endswith("/lab/reconcile?step=3")


def test_the_table_says_what_the_picture_shows(
    page: Page, simulator: str, complaints: Complaints
) -> None:
    open_page(page, f"{simulator}/lab/reconcile?step=3")
    rows = page.locator(".replica-row")
    expect(rows).to_have_count(3)
    drawn = []
    for row in rows.all():
        words = " ".join(row.locator("text").all_text_contents())
        mark = {name: words.split(f"{name} ")[1].split()[0] for name in ("HW", "LEO")}
        differing = row.locator(".cell.differs .cell-offset").all_text_contents()
        drawn.append(
            (
                str(row.get_attribute("data-broker")),
                "ISR" if row.locator(".isr-badge.in").count() else "not in ISR",
                mark["HW"],
                mark["LEO"],
                f"offset {differing[0].split()[0]}" if differing else "–",
            )
        )
    page.keyboard.press("t")
    expect(page.locator(".strips")).to_be_hidden()
    cells = [row.locator("td").all_text_contents() for row in page.locator("tbody tr").all()]
    assert drawn == [(row[0], row[2], row[6], row[7], row[9]) for row in cells]
    page.keyboard.press("t")
    expect(page.locator(".strips")).to_be_visible()


def test_a_fork_may_leave_the_story_and_the_play_stays(
    page: Page, simulator: str, complaints: Complaints
) -> None:
    open_page(page, f"{simulator}/lab/leader-fails?step=2")
    expect(page.locator(".happened h2")).to_have_text("Step 2 of 5")
    page.get_by_role("button", name="Fork").click()
    plays = page.get_by_role("group", name="Plays").get_by_role("button")
    expect(plays).to_have_count(2)
    page.locator(".offers").get_by_role("button", name="Kill broker 3").click()
    expect(page.locator(".next, .telling")).to_contain_text(["You left the story"])
    expect(page.locator(".replica-row[data-broker='3']")).to_contain_text("down")
    plays.first.click()
    expect(page.locator(".replica-row[data-broker='3']")).not_to_contain_text("down")
    complaints.are_expected = True  # browsers complain about every request that is refused
    page.get_by_label("Command").fill("make coffee")
    page.get_by_role("button", name="Do it").click()
    expect(page.locator(".notice")).to_contain_text("make")


def test_a_story_plays_by_itself_and_stops_at_its_end(
    page: Page, simulator: str, complaints: Complaints
) -> None:
    open_page(page, f"{simulator}/lab/high-watermark?step=2")
    page.get_by_label("Speed").select_option("fast")
    page.locator("h1").click()
    page.keyboard.press("Space")
    expect(page.locator(".happened h2")).to_have_text("Step 4 of 4")
    expect(page.get_by_role("button", name="Play")).to_be_disabled()


def test_the_list_leads_to_stories_and_to_seeds(
    page: Page, simulator: str, complaints: Complaints
) -> None:
    open_page(page, f"{simulator}/lab")
    expect(page.locator(".story")).to_have_count(len(ENDS))
    page.get_by_label("Seed").fill("7")
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("heading", name="Seed 7")).to_be_visible()
    expect(page.locator(".note")).to_have_text("Every rule held.")
    expect(page.locator(".run")).to_contain_text("0.089 s")
    expect(page.locator(".run")).to_contain_text("node 4 leads the metadata quorum")
    open_page(page, f"{simulator}/lab/sim?seed=8")
    expect(page.locator(".note")).to_have_text("1 rule was broken.")
    expect(page.locator(".violations")).to_contain_text("committed-is-kept tides-0 lost offset 7")
