"""The C that we bring along cannot clash with a header of any CPython.

`write_varint` did: CPython 3.12 has a static function of that name in a header that Cython
includes, and the kernels did not compile there. What Cython itself makes of a `.pyx` has Cython's
prefix, as long as nothing in it is public.
"""

import re
from pathlib import Path

import pytest

from support.tidy.source import ROOT

NATIVE = ROOT / "src/tidelog/_native"
MACRO = re.compile(r"^#define\s+(\w+)", re.MULTILINE)
NOT_NAMES = (r"/\*.*?\*/", r"^#(?:.*\\\n)*.*$", r"=[^;{]*(?=;)", r"\[[^\]]*\]")
INNERMOST = (r"\{[^{}]*\}", r"\([^()]*\)")


def names_of(header: str) -> set[str]:
    """What a header of ours adds to the names of a file that includes it."""
    macros = set(MACRO.findall(header))
    for pattern in NOT_NAMES:
        header = re.sub(pattern, "", header, flags=re.DOTALL if "*/" in pattern else re.MULTILINE)
    for pattern, left in zip(INNERMOST, (";", ""), strict=True):
        while (shorter := re.sub(pattern, left, header)) != header:
            header = shorter
    declarations = [each.split() for each in header.split(";")]
    return macros | {words[-1].lstrip("*") for words in declarations if words}


def test_the_check_finds_every_name_that_a_header_brings():
    header = """\
#ifndef GUARD
#define LANE 512
static uint32_t table[8][256]; /* [n][b] */
static int set = 1;
static inline uint8_t *write_varint(uint8_t *at, int64_t value) {
    for (int i = 0; i < 3; i++) { at++; }
    return at;
}
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(const uint8_t *data, size_t size) { return 0; }
#endif
"""
    assert names_of(header) == {"LANE", "table", "set", "write_varint", "by_instruction"}


@pytest.mark.parametrize("header", sorted(NATIVE.glob("*.h")), ids=lambda path: path.name)
def test_every_name_in_a_header_of_ours_has_our_prefix(header: Path):
    names = names_of(header.read_text())
    assert len(names) > 1
    assert {each for each in names if not each.lower().startswith("tidelog_")} == set()


@pytest.mark.parametrize("module", sorted(NATIVE.glob("*.pyx")), ids=lambda path: path.name)
def test_nothing_in_a_module_asks_cython_for_a_name_without_its_prefix(module: Path):
    assert re.findall(r"^cdef (?:public|api)\b.*$", module.read_text(), re.MULTILINE) == []
