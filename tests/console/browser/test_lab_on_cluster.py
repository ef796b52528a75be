"""Stories of the lab in a browser, on real brokers whose fetches wait at a gate."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.console_pages import Complaints, open_page
from tidelog import lab

GUARD_S = 240


def tidelog(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the console of a cluster that was started for the lab."""
    here = tmp_path_factory.mktemp("lab")
    anywhere = ("--port", "0", "--console-port", "0", "--timeout", "120s")
    try:
        started = tidelog(here, "up", "--lab", "--detach", "-o", "json", *anywhere)
        yield json.loads(started)["console"]
    finally:
        tidelog(here, "down")


@pytest.mark.parametrize("name", ["fetch-is-the-ack", "high-watermark", "reconcile"])
def test_a_story_comes_out_on_real_brokers_as_it_is_told(
    page: Page, console: str, name: str, complaints: Complaints
) -> None:
    story = lab.find(name)
    open_page(page, f"{console}/lab/{name}?on=cluster")
    expect(page.locator(".note")).to_contain_text("Real cluster.")
    expect(page.get_by_role("button", name="Back")).to_have_count(0)
    for step in range(1, len(story.chapters) + 1):
        page.keyboard.press("ArrowRight")
        progress = f"Step {step} of {len(story.chapters)}"
        expect(page.locator(".happened h2")).to_have_text(progress)
    expect(page.locator(".next .sentence")).to_have_text(story.saw)
    expect(page.locator(".replica-row")).to_have_count(3)
    assert page.locator(".bad-text").count() == 0, "a step came out otherwise than told"
