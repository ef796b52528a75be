"""One browser and one live cluster with its console for each process of the test run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from support.console_pages import (
    CLUSTER_NAME,
    GUARD_MS,
    Complaints,
    LiveConsole,
    running_console,
)
from support.console_story import tell_story
from support.programs import program
from tidelog.testing import Cluster

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def live() -> Iterator[LiveConsole]:
    with tempfile.TemporaryDirectory(prefix="tidelog-console-") as directory:
        home = Path(directory)
        with (
            Cluster(brokers=3, directory=home / CLUSTER_NAME) as cluster,
            running_console(home) as url,
        ):
            tell_story(cluster)
            yield LiveConsole(cluster, url)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(GUARD_MS)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def complaints(page: Page) -> Iterator[Complaints]:
    """Fails the test at its end if the browser complained."""
    complaints = Complaints(page)
    yield complaints
    complaints.check()
