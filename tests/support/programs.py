"""Programs of others that tests drive. `make programs` installs them where that is allowed."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """Where it is. The test is skipped if it is missing; in CI nothing may be skipped."""
    found = shutil.which(name)
    if found is None:
        reason = f"there is no {name}: make programs, or apt-get install {name}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
