"""Compiles `tidelog._native` while the package is built, also for an editable installation.

    python hatch_build.py    compiles into src, for a checkout that is not installed

Without a C compiler, or when it fails, the package is built all the same, and the Python twins
serve. pip hides what a build prints, so the reason is packed as well: `tidelog version` and the
first journal line of a node repeat it. TIDELOG_REQUIRE_NATIVE=1 makes a failure the end of the
build.
"""

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
NATIVE = Path("src/tidelog/_native")
NOTE = NATIVE / "not_compiled.txt"  # `tidelog.wire.kernel.choice` reads it
MODULES = ("chain", "decoding", "encoding", "walk")
FLAGS = ("-O3", "-g0", "-fno-strict-aliasing", "-Wall", "-Wno-unused-function")
REQUIRED = "TIDELOG_REQUIRE_NATIVE"


def compile_modules() -> list[Path]:
    """The compiled modules, beside their sources; generated C stays in `build`."""
    os.chdir(ROOT)
    NOTE.unlink(missing_ok=True)
    extensions = [
        Extension(
            f"tidelog._native.{name}",
            [str(NATIVE / f"{name}.pyx")],
            include_dirs=[str(NATIVE)],
            depends=[str(header) for header in sorted(NATIVE.glob("*.h"))],
            extra_compile_args=os.environ.get("TIDELOG_CFLAGS", " ".join(FLAGS)).split(),
        )
        for name in MODULES
    ]
    cython = cythonize(extensions, build_dir="build/cython", quiet=True, force=True)
    command = build_ext(Distribution({"ext_modules": cython, "package_dir": {"": "src"}}))
    command.inplace = True
    command.force = True
    command.build_temp = "build/native"
    command.parallel = len(MODULES)
    command.ensure_finalized()
    command.run()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return [NATIVE / f"{name}{suffix}" for name in MODULES]


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]  # the backend ships no types here
    """What hatchling calls before it packs a wheel or links an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        with _compilers_words() as said:
            try:
                made = compile_modules()
            except (Exception, SystemExit) as error:  # compilers fail in ways of their own
                if os.environ.get(REQUIRED) == "1":
                    raise
                self._go_on_without(_reason(error, said), build_data)
                return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].extend(f"/{path.as_posix()}" for path in made)

    def _go_on_without(self, reason: str, build_data: dict[str, Any]) -> None:
        NOTE.write_text(f"{reason}\n", "utf-8")
        build_data["artifacts"].append(f"/{NOTE.as_posix()}")
        self.app.display_warning(
            f"tidelog._native is not compiled, Python serves, several times slower: {reason}"
        )
        self.app.display_warning(f"{REQUIRED}=1 makes this an error")


@contextmanager
def _compilers_words() -> Iterator[IO[bytes]]:
    """What a compiler writes to stderr, which goes there all the same when it is done."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)
            said.seek(0)
            sys.stderr.write(said.read().decode("utf-8", "replace"))


def _reason(error: BaseException, said: IO[bytes]) -> str:
    """The compiler's first complaint, or else what the build ended with."""
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").splitlines()
    complaints = [line.strip() for line in lines if "error:" in line]
    return complaints[0] if complaints else " ".join(str(error).split())


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in compile_modules())
