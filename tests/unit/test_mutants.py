"""The catalogue of mutants: every one changes something that exists, and puts it back."""

from collections import Counter
from pathlib import Path

import pytest

from tidelog.sim import mutants

CATALOGUE = mutants.catalogue()
PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"


def test_names_and_titles_are_there_once():
    for each in ("name", "title"):
        counts = Counter(getattr(mutant, each) for mutant in CATALOGUE)
        assert {value for value, count in counts.items() if count > 1} == set()


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_production_while_it_is_applied(mutant):
    def now():
        return [getattr(patch.owner, patch.attribute) for patch in mutant.patches]

    before = now()
    with mutants.apply(mutant.name):
        assert all(changed != sound for changed, sound in zip(now(), before, strict=True))
    assert now() == before


def test_the_page_of_mutants_names_every_one_of_them():
    page = PAGE.read_text("utf-8")
    missing = [each for each in CATALOGUE if f"| {each.name} | {each.title} |" not in page]
    assert missing == [], "tidelog sim mutants -o markdown prints the rows"
