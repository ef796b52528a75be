"""Many record batches at once, without an object per record.

The kernel exists twice: compiled in `tidelog._native`, and in Python on `wire.records`. Both pass
the same tests and say the same about broken bytes. Columns for Arrow: `wire.arrow`.
"""

from tidelog.wire.kernel.choice import implementation, why_python
from tidelog.wire.kernel.stamping import restamp
from tidelog.wire.kernel.table import CRC_UNCHECKED, BatchTable, scan_batches, scan_region

__all__ = [
    "CRC_UNCHECKED",
    "BatchTable",
    "implementation",
    "restamp",
    "scan_batches",
    "scan_region",
    "why_python",
]
