#!/usr/bin/env python3
"""Tests the report page: its types, then its behaviour in Chromium (./dev test runs this).

usage: run_tests.py [BUILD] [--pictures] [options of node --test]

BUILD is build/release by default. Screenshots stay in build/page/screenshots. --pictures only follows docs/profiling.md
and keeps the pictures that are made on the way: they are what the document shows from then on.
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


def keep(pictures, kept):
    """Pictures with few colours are a third of the size, and look the same."""
    code = ("import sys\nfrom PIL import Image\n"
            "Image.open(sys.argv[1]).convert('RGB').quantize(128, dither=Image.Dither.NONE).save(sys.argv[2], optimize=True)")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for picture in sorted(pictures.iterdir()):
        run(ROOT / "build/venv/bin/python", "-c", code, picture, kept / picture.name)


def main(words):
    build = pathlib.Path(words.pop(0)) if words and not words[0].startswith("-") else ROOT / "build/release"
    renews = "--pictures" in words
    words = [word for word in words if word != "--pictures"]
    work = ROOT / "build/page"
    screenshots, pictures = work / "screenshots", work / "pictures"
    for folder in (screenshots, pictures):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    fetch_packages(work)
    run("node", work / "node_modules/typescript/lib/tsc.js", "-p", ROOT / "aspen/profile/page")
    run(build / "tests/make_examples", work / "examples")
    settings = {"PAGE_EXAMPLES": work / "examples", "PAGE_PACKAGES": work, "PAGE_SCREENSHOTS": screenshots,
                "PAGE_BUNDLE": build / "generated/page", "PAGE_PICTURES": pictures,
                "PAGE_PROGRAMS": f"{ROOT / 'build/venv/bin'}:{build.resolve() / 'apps'}"}
    environment = os.environ | {name: str(value) for name, value in settings.items()}
    if renews:
        run("node", HERE / "walk_test.mjs", env=environment | {"PAGE_RENEWS": "1"}, timeout=300)
        keep(pictures, ROOT / "docs/profiling")
        return
    run("node", "--test", *words, HERE / "page_test.mjs", HERE / "walk_test.mjs", env=environment, timeout=900)


if __name__ == "__main__":
    main(sys.argv[1:])
