#!/usr/bin/env python3
"""Tests the report page: its types, then its behaviour in Chromium (./dev test runs this).

usage: run_tests.py [BUILD] [options of node --test]

BUILD is build/release by default. Screenshots stay in build/page/screenshots.
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]


def run(*command, **more):
    result = subprocess.run([str(word) for word in command], check=False, **more)
    if result.returncode != 0:
        sys.exit(result.returncode)


def fetch_packages(folder):
    """The npm packages that package-lock.json pins, unless the folder has them already."""
    lock = (HERE / "package-lock.json").read_bytes()
    fetched = folder / "fetched-lock.json"
    if fetched.exists() and fetched.read_bytes() == lock:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    fetched.write_bytes(lock)


def main(words):
    build = pathlib.Path(words.pop(0)) if words and not words[0].startswith("-") else ROOT / "build/release"
    work = ROOT / "build/page"
    screenshots = work / "screenshots"
    shutil.rmtree(screenshots, ignore_errors=True)
    screenshots.mkdir(parents=True)
    fetch_packages(work)
    run("node", work / "node_modules/typescript/lib/tsc.js", "-p", ROOT / "aspen/profile/page")
    run(build / "tests/make_examples", work / "examples")
    settings = {"PAGE_EXAMPLES": work / "examples", "PAGE_PACKAGES": work, "PAGE_SCREENSHOTS": screenshots}
    run("node", "--test", *words, HERE / "page_test.mjs",
        env=os.environ | {name: str(value) for name, value in settings.items()}, timeout=900)


if __name__ == "__main__":
    main(sys.argv[1:])
