"""Builds the Python package with CMake: `pip install . --no-build-isolation`, in an environment that sees torch.

The native core and the Python files are put together by CMake's install rules (component "python"), so that a wheel, an
installation and the build tree hold the same files.
"""
import os
import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    def run(self):
        build, target = pathlib.Path(self.build_temp).resolve(), pathlib.Path(self.build_lib).resolve()
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DASPEN_TESTS=OFF", f"-DASPEN_PYTHON={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", jobs, "--target", "python_package"], check=True)
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", target], check=True)


setup(ext_modules=[Extension("poptorch.poptorch_core", sources=[])], packages=[], cmdclass={"build_ext": CMakeBuild})
