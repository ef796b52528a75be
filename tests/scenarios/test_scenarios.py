"""Every scenario file, beside this one or in the lab, has exactly the output it says."""

from pathlib import Path

import pytest

import tidelog
from tidelog.sim.scenario import difference, rewritten

LAB_STORIES = Path(tidelog.__file__).parent / "lab" / "stories"
SCENARIOS = sorted(Path(__file__).parent.glob("*.txt")) + sorted(LAB_STORIES.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    if request.config.getoption("--rewrite", default=False):
        path.write_text(rewritten(text))
        return
    changed = difference(text, path.name)
    if changed:
        pytest.fail(f"{path.name} tells another story now:\n{changed}", pytrace=False)
