"""Which of the two kernels runs: the compiled one where it was built, its Python twin elsewhere.

`TIDELOG_PURE=1` in the environment asks for the twin.
"""

import os
from typing import NamedTuple

from tidelog._native.contract import Decoding, Encoding
from tidelog.wire.kernel import decoding_twin, encoding_twin


class Kernel(NamedTuple):
    """Both halves of one implementation."""

    name: str
    decoding: Decoding
    encoding: Encoding


def implementation() -> str:
    """`compiled` or `python`: what turns batches into columns in this process."""
    return kernel.name


def compiled() -> Kernel | None:
    """The compiled kernel, if the package was built with a compiler."""
    try:
        from tidelog._native import decoding, encoding  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return Kernel("compiled", decoding, encoding)


python = Kernel("python", decoding_twin, encoding_twin)

kernel: Kernel = (None if os.environ.get("TIDELOG_PURE") == "1" else compiled()) or python
