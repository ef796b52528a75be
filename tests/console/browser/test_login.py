"""A cluster that knows its users wants to know who looks at it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.console_pages import CLUSTER_NAME, LiveConsole, running_console
from tidelog.client.security import read_properties
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def secured() -> Iterator[LiveConsole]:
    with tempfile.TemporaryDirectory(prefix="tidelog-console-") as directory:
        home = Path(directory)
        with (
            Cluster(brokers=1, directory=home / CLUSTER_NAME, secure=True) as cluster,
            running_console(home) as url,
        ):
            yield LiveConsole(cluster, url)


def sign_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_comes_to_the_page_that_was_asked_for(
    secured: LiveConsole, page: Page
) -> None:
    """Without complaints on purpose: a browser reports the answer to a wrong password."""
    login = read_properties(secured.cluster.client_properties).login
    assert login is not None
    page.goto(f"{secured.url}/brokers")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.get_by_role("navigation", name="Console")).to_have_count(0)
    sign_in(page, login.user, "not this")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page, login.user, login.password)
    expect(page.get_by_role("heading", level=1)).to_have_text("Brokers")
    page.get_by_role("button", name=f"Sign out {login.user}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(f"{secured.url}/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
