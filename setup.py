"""Builds the Python package with CMake: `pip install . --no-build-isolation`, in an environment that sees torch.

The native core and the Python files are put together by CMake's install rules (component "python"), so that a wheel, an
installation and the build tree hold the same files. gc-monitor and gc-info (component "monitor") become commands of the
environment, as the programs they are.
"""
import os
import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from distutils.command.build_scripts import build_scripts
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent.resolve()
COMMANDS = ["gc-monitor", "gc-info"]


class CMakeBuild(build_ext):
    def run(self):
        build, target = pathlib.Path(self.build_temp).resolve(), pathlib.Path(self.build_lib).resolve()
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DASPEN_TESTS=OFF", f"-DASPEN_PYTHON={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", jobs, "--target", "python_package"], check=True)
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", target], check=True)


class NativeCommands(build_scripts):
    """After build_ext, which has built them. The original would look for an interpreter in their first line."""

    def run(self):
        build = pathlib.Path(self.get_finalized_command("build_ext").build_temp).resolve()
        installed = build / "commands"
        subprocess.run(["cmake", "--install", build, "--component", "monitor", "--prefix", installed], check=True)
        self.mkpath(self.build_dir)
        for name in self.scripts:
            self.copy_file(str(installed / "bin" / name), self.build_dir)

    def get_source_files(self):
        return []


setup(ext_modules=[Extension("poptorch.poptorch_core", sources=[])], packages=[], scripts=COMMANDS,
      cmdclass={"build_ext": CMakeBuild, "build_scripts": NativeCommands})
