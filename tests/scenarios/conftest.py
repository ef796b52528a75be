"""`pytest tests/scenarios --rewrite` puts the actual output into the scenario files.

Commit a rewritten file only when you understand every line of the difference.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the actual output into scenario files"
    )
