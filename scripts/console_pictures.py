"""The pictures that pages of the console are compared with, taken anew.

    make pictures

Look at each that git says has changed before you commit it.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.console_pictures import PAGES, PICTURES, THEMES, compare, picture_of, small, take
from support.console_served import TOLD_SEEDS, served
from tidelog.console.place import simulator


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with served(simulator(*TOLD_SEEDS)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context().new_page()  # which may have a second one
        for name in PAGES:
            for theme in THEMES:
                path = picture_of(name, theme)
                now = take(page, url, name, theme)
                if path.exists() and compare(page, path.read_bytes(), now).is_allowed:
                    print(f"{'as before':>12}  {path.name}")
                    continue
                path.write_bytes(small(now))
                print(f"{path.stat().st_size:>12,}  {path.name}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
