"""Compiles `tidelog._native` while the package is built, also for an editable installation.

    python hatch_build.py    compiles into src, for a checkout that is not installed

Without a C compiler, or when it fails, the package is built all the same: `wire.arrow` then runs
its Python twin, and `tidelog.wire.arrow.implementation()` says so.
"""

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
NATIVE = Path("src/tidelog/_native")
MODULES = ("chain", "decoding", "encoding", "walk")
FLAGS = ("-O3", "-g0", "-fno-strict-aliasing", "-Wall", "-Wno-unused-function")


def compile_modules() -> list[Path]:
    """The compiled modules, beside their sources; generated C stays in `build`."""
    os.chdir(ROOT)
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
        try:
            made = compile_modules()
        except (Exception, SystemExit) as error:  # compilers fail in ways of their own
            self.app.display_warning(f"tidelog._native is not compiled, Python serves: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].extend(f"/{path.as_posix()}" for path in made)


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in compile_modules())
