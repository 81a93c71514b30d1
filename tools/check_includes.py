#!/usr/bin/env python3
"""Checks that includes follow the layers and names each arrow that points the wrong way.

usage: check_includes.py [ROOT]

Every C++ file belongs to the first layer whose pattern matches its path; the layer lists the layers it may include.
Includes of libraries that only some layers may see (torch, oneDNN) are checked the same way.
"""
import pathlib
import re
import sys
from typing import NamedTuple


class Layer(NamedTuple):
    name: str
    pattern: str           # of paths relative to the root
    may_include: str       # layers besides itself; "*": all
    libraries: str = ""    # restricted libraries it may see


# Tests may look anywhere, so they come first; then each folder from the bottom up.
LAYERS = [
    Layer("tests", r"tests/|benchmarks/|.*_test\.(cpp|h)$", "*", "torch onednn"),
    Layer("base", r"aspen/base/", ""),
    Layer("backends/api", r"aspen/backends/api/", "base"),
    Layer("reference kernels", r"aspen/ops/[^/]+/.*\.ref\.(cpp|h)$|aspen/backends/reference/",
          "base backends/api op-attributes"),
    Layer("cpu kernels", r"aspen/ops/[^/]+/.*(\.cpu\.(cpp|h)|\.inc)$|aspen/backends/cpu/",
          "base backends/api op-attributes reference-kernels", "onednn"),
    Layer("null backend", r"aspen/backends/null/", "base backends/api op-attributes"),
    Layer("op attributes", r"aspen/ops/[^/]+/[^/]+\.h$", "base"),
    Layer("ipus", r"aspen/ipus/", "base"),
    Layer("runtime", r"aspen/runtime/", "base ipus backends/api"),
    Layer("compiler/ir", r"aspen/compiler/ir/", "base"),
    Layer("ops", r"aspen/ops/", "base compiler/ir op-attributes"),
    Layer("compiler", r"aspen/compiler/", "base backends/api op-attributes runtime compiler/ir ops"),
    Layer("program file", r"aspen/program_file/", "base backends/api op-attributes runtime compiler/ir compiler"),
    Layer("apps", r"apps/", "base ipus backends/api runtime compiler/ir op-attributes ops compiler program-file "
          "reference-kernels cpu-kernels"),
    Layer("public C++ API", r"include/poptorch/", "", "torch"),
    Layer("poptorch", r"poptorch/", "public-C++-API base ipus backends/api runtime compiler/ir op-attributes ops "
          "compiler program-file reference-kernels cpu-kernels", "torch"),
    Layer("examples", r"examples/", "public-C++-API", "torch"),
]

LIBRARIES = {
    "torch": re.compile(r"(torch|ATen|c10|caffe2|pybind11)/|Python\.h$"),
    "onednn": re.compile(r"dnnl|oneapi/"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
FOLDERS = ("aspen", "poptorch", "include", "apps", "examples", "tests", "benchmarks")
SUFFIXES = {".h", ".hpp", ".cpp", ".cu", ".inc"}


# The examples of the guides are laid out like the tree they extend, and keep its rules.
EXAMPLES = "tests/docs/"


def layer_of(path):
    path = path.removeprefix(EXAMPLES)
    return next((layer for layer in LAYERS if re.match(layer.pattern, path)), None)


def resolve(root, includer, name):
    """Path of an included file of ours relative to the root, or None for a file of the system."""
    for base in (root, root / "include", includer.parent, root / EXAMPLES):
        candidate = base / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root).as_posix()
    return None


def may_include(layer, target):
    return layer == target or layer.may_include == "*" or target.name.replace(" ", "-") in layer.may_include.split()


def problems_in(root, file):
    """Yields one message per include of `file` that breaks a rule."""
    path = file.relative_to(root).as_posix()
    layer = layer_of(path)
    if layer is None:
        yield f"{path}: belongs to no layer; add its folder to LAYERS in tools/check_includes.py"
        return
    text = file.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        quote, name = match.groups()
        target_path = resolve(root, file, name)
        if target_path is not None:
            target = layer_of(target_path)
            if not may_include(layer, target):
                allowed = ", ".join(layer.may_include.split())
                yield (f"{path}:{line}: broken arrow {layer.name} -> {target.name}: includes {name}; "
                       f"{layer.name} may include {allowed or 'only itself'}")
        elif quote == '"':
            yield f"{path}:{line}: \"{name}\" does not exist (includes start at the root of the repository)"
        else:
            for library, pattern in LIBRARIES.items():
                if pattern.match(name) and library not in layer.libraries.split():
                    yield f"{path}:{line}: broken arrow {layer.name} -> {library}: includes <{name}>"


def main(root):
    files = [f for folder in FOLDERS for f in sorted((root / folder).rglob("*")) if f.suffix in SUFFIXES]
    problems = [problem for file in files for problem in problems_in(root, file)]
    for problem in problems:
        print(problem)
    print(f"include check: {len(files)} files, {len(problems)} broken", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()))
