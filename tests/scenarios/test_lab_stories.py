"""Every story of the lab has exactly the output it says; `--rewrite` works here, too."""

from pathlib import Path

import pytest

import tidelog.lab
from tidelog.sim.scenario import difference, rewritten

STORIES = sorted((Path(tidelog.lab.__file__).parent / "stories").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_lab_story(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    if request.config.getoption("--rewrite", default=False):
        path.write_text(rewritten(text))
        return
    changed = difference(text, path.name)
    if changed:
        pytest.fail(f"{path.name} tells another story now:\n{changed}", pytrace=False)
