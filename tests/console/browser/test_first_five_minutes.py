"""What a newcomer does in the first five minutes, with nothing but the wheel and a browser."""

import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support.console_pages import Complaints, open_page
from support.programs import program
from support.tidy.source import ROOT

pytestmark = pytest.mark.long
GUARD_S = 900
RECORDS = [str(number) for number in range(1, 601)]


class Newcomer:
    """Somebody in an empty directory, with an environment that has only our wheel in it."""

    def __init__(self, home: Path) -> None:
        self.home = home / "home"
        self.home.mkdir()
        self.bin = home / "venv" / "bin"

    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**clean, "PATH": f"{self.bin}{os.pathsep}{clean['PATH']}", "NO_COLOR": "1"}

    def types(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            capture_output=True,
            text=True,
            check=False,
            timeout=GUARD_S,
            cwd=self.home,
            env=self.environment(),
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def starts(self, line: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", line],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
            env=self.environment(),
        )


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    place = tmp_path_factory.mktemp("newcomer")
    found = Newcomer(place)
    venv.create(place / "venv", with_pip=True)
    wheels = place / "wheels"
    build = f"{sys.executable} -m pip wheel -q --no-deps --no-build-isolation"
    found.types(f"{build} --wheel-dir {wheels} {ROOT}")
    (wheel,) = wheels.glob("tidelog-*.whl")
    found.types(f"pip install -q '{wheel}[testing]' confluent-kafka==2.16.1")
    return found


@contextmanager
def cluster_of(newcomer: Newcomer) -> Iterator[str]:
    """What `tidelog up` printed when it was ready; it stays until Ctrl-C."""
    running = newcomer.starts("exec tidelog up --brokers 3")
    assert running.stdout is not None
    printed = ""
    for line in running.stdout:
        printed += line
        if line.startswith("next:"):
            break
    try:
        yield printed
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=GUARD_S)


def row(page: Page, broker: str) -> Locator:
    return page.locator(f".replica-row[data-broker='{broker}']")


def leader_of(page: Page) -> str:
    leading = page.locator(".replica-row", has=page.locator(".strip-crown.now"))
    expect(leading).to_have_count(1)
    return str(leading.get_attribute("data-broker"))


def test_five_minutes_from_the_wheel_to_a_test_of_ones_own(
    newcomer: Newcomer, page: Page, complaints: Complaints
) -> None:
    with cluster_of(newcomer) as printed:
        assert printed.count("✔") == 5, printed
        assert re.search(r"dev is ready in \d+\.\d s", printed), printed
        (url,) = re.findall(r"✔ console +(http://\S+)", printed)
        servers = re.findall(r"✔ broker \d +(\S+)", printed)
        newcomer.types("tidelog topic create orders -p 1")

        open_page(page, url)
        expect(page.locator("main")).to_contain_text("All is well")
        open_page(page, f"{url}/p/orders-0")
        expect(page.locator(".replica-row")).to_have_count(3)
        expect(page.locator(".replica-row .isr-badge")).to_have_text(["ISR"] * 3)
        first = leader_of(page)

        writing = newcomer.starts("seq 1 600 | tidelog produce orders --rate 5/s")
        for broker in "123":
            expect(row(page, broker).locator(".cell").first).to_be_visible()
        page.keyboard.press("k")
        expect(page.locator(".notice")).to_contain_text(f"Broker {first} was killed.")
        expect(page.locator(".page-head")).to_contain_text("leader epoch 1")
        assert leader_of(page) != first

        newcomer.types(f"tidelog chaos restart {first}")
        expect(page.locator(".page-head")).to_contain_text("healthy")
        expect(row(page, first).locator(".isr-badge")).to_have_text("ISR")

        told, _ = writing.communicate(timeout=GUARD_S)
        assert "600 records written" in told
        kcat = program("kcat")
        read = newcomer.types(f"{kcat} -b {','.join(servers)} -t orders -C -e -q")
        assert read.split() == RECORDS
        assert "what you saw:" in newcomer.types("tidelog lab run reconcile")

        open_page(page, f"{url}/help")
        card = page.locator("section", has_text="Use it in your tests").last
        test = card.locator("code").inner_text()
        (newcomer.home / "test_orders.py").write_text(test)
        assert "1 passed" in newcomer.types("python -m pytest -q test_orders.py")
