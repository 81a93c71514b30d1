#!/usr/bin/env python3
"""Checks formatting and runs clang-tidy; with --format, formats instead. Called by ./dev lint and ./dev format.

usage: lint.py [--all | --format] [ROOT]

Formatting is checked in all C++ files, tracked or new. clang-tidy takes a while per file, so it looks at what differs
from origin's main; where nothing does (a fresh clone, or the main branch itself), at the last commits; with --all, at
everything. A changed header or loop file (.inc) is checked through a source file that includes it.

clang-tidy reads build/lint/compile_commands.json, which `cmake --preset lint` writes (./dev lint does): that of a build
of everything, without the precompiled header of GCC that clang cannot read.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

SUFFIXES = ("*.h", "*.cpp", "*.inc")
LAST_COMMITS = 5
INCLUDE = re.compile(r'^\s*#\s*(?:include|define ASPEN_ISA_FILE)\s*"([^"]+)"', re.MULTILINE)

# Torch's C++ API compiles as C++20 with clang 16 only if this header comes first: others hold vectors of a type that is
# complete after it.
TORCH_FIRST = "ATen/core/dispatch/Dispatcher.h"


def git(root, *arguments):
    result = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return result.stdout.split("\n")[:-1] if result.returncode == 0 else []


def all_files(root):
    """C++ files that are tracked or new, not ignored, not deleted."""
    listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--", *SUFFIXES)
    return sorted({name for name in listed if (root / name).is_file()})


def differing_from(root, commit):
    changed = git(root, "diff", "--name-only", "--diff-filter=d", commit, "--", *SUFFIXES)
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "--", *SUFFIXES)
    return sorted({*changed, *untracked})


def changed_files(root):
    """What clang-tidy looks at, and how that is said."""
    for branch in ("origin/main", "main"):
        base = git(root, "merge-base", "HEAD", branch)
        files = differing_from(root, base[0]) if base else []
        if files:
            return files, f"what differs from {branch}"
    history = git(root, "rev-list", "--first-parent", f"--max-count={LAST_COMMITS + 1}", "HEAD")
    files = differing_from(root, history[-1]) if len(history) > 1 else []
    if files:
        return files, f"the last {len(history) - 1} commits"
    return all_files(root), "all files: the last commits touch none"


def sources_for(root, files, known):
    """The source files to read so that each of `files` is seen, and the files that none of `known` includes."""
    includers = {}
    for name in all_files(root):
        for included in INCLUDE.findall((root / name).read_text(encoding="utf-8")):
            beside = (pathlib.PurePosixPath(name).parent / included).as_posix()
            for candidate in (included, f"include/{included}", f"tests/docs/{included}", beside):
                includers.setdefault(candidate, []).append(name)
    sources, unseen = set(), []
    for name in files:
        reached, queue = {name}, [name]
        while queue and queue[0] not in known:
            following = [n for n in includers.get(queue.pop(0), []) if n not in reached]
            reached.update(following)
            queue += following
        if queue:
            sources.add(queue[0])
        else:
            unseen.append(name)
    return sorted(sources), unseen


def compiled_files(root):
    """The source files of the lint preset, relative to the root, and whether each is compiled against torch."""
    commands = root / "build" / "lint" / "compile_commands.json"
    if not commands.exists():
        sys.exit("lint: build/lint/compile_commands.json is missing; `cmake --preset lint` writes it")
    found = {}
    for entry in json.loads(commands.read_text()):
        file = pathlib.Path(entry["file"])
        if file.is_relative_to(root) and file.exists():
            found[file.relative_to(root).as_posix()] = "/torch/csrc/api/include" in entry["command"]
    return found


def check_format(root):
    files = all_files(root)
    print(f"== clang-format: {len(files)} files", file=sys.stderr)
    result = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=root)
    if result.returncode != 0:
        print("lint: ./dev format mends this", file=sys.stderr)
    return result.returncode == 0


def check_tidy(root, everything):
    files, what = (all_files(root), "all files") if everything else changed_files(root)
    uses_torch = compiled_files(root)
    sources, unseen = sources_for(root, files, uses_torch)
    print(f"== clang-tidy: {len(sources)} source files ({what})", file=sys.stderr)
    for name in unseen:
        print(f"   not looked at, since no target has it: {name}", file=sys.stderr)

    # omp.h comes with GCC, which the build uses; what clang has of its own goes first.
    gcc = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    arguments = [f"--extra-arg={argument}" for argument in ("-Wno-unknown-pragmas", "-idirafter", gcc)]

    def tidy(name):
        first = ["--extra-arg=-include", f"--extra-arg={TORCH_FIRST}"] if uses_torch[name] else []
        command = ["clang-tidy-16", "--quiet", "-p", "build/lint", *arguments, *first, name]
        return name, subprocess.run(command, cwd=root, capture_output=True, text=True)

    passed = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, result in pool.map(tidy, sources):
            if result.returncode != 0:
                passed = False
                print(f"{name}:\n{result.stdout}{result.stderr}", flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--format", action="store_true")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.format:
        return subprocess.run(["clang-format", "-i", *all_files(root)], cwd=root).returncode
    results = [check_format(root), check_tidy(root, arguments.all)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
