"""Which of the two kernels runs: the compiled one where it was built, its Python twin elsewhere.

`TIDELOG_PURE=1` in the environment asks for the twin.
"""

import os
from importlib import resources
from typing import NamedTuple

from tidelog._native.contract import Decoding, Encoding
from tidelog.wire.kernel import decoding_twin, encoding_twin

BUILD_NOTE = "not_compiled.txt"
"""`hatch_build.py` leaves the reason here when the compiler fails."""


class Kernel(NamedTuple):
    """Both halves of one implementation."""

    name: str
    decoding: Decoding
    encoding: Encoding


def implementation() -> str:
    """`compiled` or `python`: what turns batches into columns in this process."""
    return kernel.name


def why_python() -> str | None:
    """Why the Python twins run here, in a few words; None where the compiled kernels do."""
    if kernel is not python:
        return None
    if os.environ.get("TIDELOG_PURE") == "1":
        return "TIDELOG_PURE=1 asks for it"
    note = resources.files("tidelog._native").joinpath(BUILD_NOTE)
    if note.is_file():
        return f"the build of this installation failed: {note.read_text('utf-8').strip()}"
    return "this installation has no kernels that were compiled for this Python"


def compiled() -> Kernel | None:
    """The compiled kernel, if the package was built with a compiler."""
    try:
        from tidelog._native import decoding, encoding  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return Kernel("compiled", decoding, encoding)


python = Kernel("python", decoding_twin, encoding_twin)

kernel: Kernel = (None if os.environ.get("TIDELOG_PURE") == "1" else compiled()) or python
