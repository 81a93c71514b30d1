"""What ./dev lint looks at. clang-format and clang-tidy are stand-ins here that complain about the word WRONG."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

LINT = pathlib.Path(__file__).parents[2] / "tools" / "lint.py"
STAND_IN = f"""#!{sys.executable}
import pathlib, sys
files = [a for a in sys.argv[1:] if pathlib.Path(a).suffix in (".h", ".cpp", ".inc") and a[0] != "-"]
first = [a for a in sys.argv[1:] if a.endswith("Dispatcher.h")]
print(pathlib.Path(sys.argv[0]).name, *files, *first, file=open("{{log}}", "a"))
if "-i" in sys.argv:
    for f in files: pathlib.Path(f).write_text(pathlib.Path(f).read_text().replace("WRONG", "right"))
sys.exit(any("WRONG" in pathlib.Path(f).read_text() for f in files))
"""


class Tree:
    """A small repository, cloned from an origin, with four files of C++."""

    command = "c++"

    def __init__(self, folder):
        self.root, self.log, self.tools = folder / "clone", folder / "log", folder / "tools"
        origin = folder / "origin"
        self.tools.mkdir()
        for name in ("clang-format", "clang-tidy-16"):
            (self.tools / name).write_text(STAND_IN.format(log=self.log))
            (self.tools / name).chmod(0o755)
        subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
        self.write("aspen/a.cpp", '#include "aspen/a.h"\n', origin)
        self.write("aspen/a.h", "\n", origin)
        self.write("aspen/b.cpp", '#define ASPEN_ISA_FILE "aspen/b_loops.inc"\n', origin)
        self.write("aspen/b_loops.inc", "\n", origin)
        self.write(".gitignore", "/build/\n", origin)
        self.commit(origin)
        subprocess.run(["git", "clone", "-q", origin, self.root], check=True)
        self.configure("aspen/a.cpp", "aspen/b.cpp")

    def write(self, name, text, root=None):
        path = (root or self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, root=None):
        for command in (["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x"]):
            subprocess.run(["git", "-C", root or self.root, *command], check=True)

    def configure(self, *sources):
        commands = [{"directory": str(self.root), "file": str(self.root / s), "command": self.command} for s in sources]
        self.write("build/lint/compile_commands.json", json.dumps(commands))

    def lint(self, *arguments):
        self.log.write_text("")
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        result = subprocess.run([sys.executable, LINT, *arguments, self.root], capture_output=True, text=True,
                                env=environment)
        return result.returncode

    def tidied(self):
        return {line.split()[1] for line in self.log.read_text().splitlines() if line.startswith("clang-tidy-16")}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_an_untouched_clone_passes_and_something_is_checked(tree):
    assert tree.lint() == 0
    assert tree.tidied() == {"aspen/a.cpp", "aspen/b.cpp"}


@pytest.mark.parametrize("name", ["aspen/new.cpp", "aspen/new.h", "aspen/new_loops.inc"])
def test_formatting_of_new_files_counts_before_they_are_tracked(tree, name):
    tree.write(name, "WRONG\n")
    assert tree.lint() == 1
    assert tree.lint("--format") == 0
    assert (tree.root / name).read_text() == "right\n"
    assert tree.lint() == 0


@pytest.mark.parametrize("changed, read", [("aspen/a.cpp", "aspen/a.cpp"), ("aspen/a.h", "aspen/a.cpp"),
                                           ("aspen/b_loops.inc", "aspen/b.cpp")])
@pytest.mark.parametrize("committed", [False, True])
def test_what_differs_from_main_is_read_by_tidy(tree, changed, read, committed):
    with open(tree.root / changed, "a") as file:
        file.write("// a change\n")
    if committed:
        tree.commit()
    assert tree.lint() == 0
    assert tree.tidied() == {read}


def test_on_main_the_last_commits_are_read(tree):
    tree.write("aspen/b.cpp", "// a change\n")
    tree.commit()
    subprocess.run(["git", "-C", tree.root, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    assert tree.lint() == 0
    assert tree.tidied() == {"aspen/b.cpp"}


def test_a_complaint_of_tidy_fails(tree):
    (tree.tools / "clang-format").write_text("#!/bin/sh\n")
    tree.write("aspen/a.cpp", "WRONG\n")
    assert tree.lint() == 1
    tree.write("aspen/a.cpp", "right\n")
    assert tree.lint() == 0


def test_all_reads_everything(tree):
    tree.write("aspen/a.cpp", "// a change\n")
    assert tree.lint("--all") == 0
    assert tree.tidied() == {"aspen/a.cpp", "aspen/b.cpp"}


def test_a_folder_of_a_new_op_is_read_once_configured(tree):
    tree.write("aspen/ops/new/new.cpp", '#include "aspen/ops/new/new.h"\n')
    tree.write("aspen/ops/new/new.h", "\n")
    tree.configure("aspen/a.cpp", "aspen/b.cpp", "aspen/ops/new/new.cpp")
    assert tree.lint() == 0
    assert tree.tidied() == {"aspen/ops/new/new.cpp"}


@pytest.mark.parametrize("command", ["c++", "c++ -isystem /usr/include/torch/csrc/api/include"])
def test_what_clang_needs_to_read_torch_comes_first(tree, command):
    tree.command = command
    tree.configure("aspen/a.cpp")
    assert tree.lint("--all") == 0
    assert ("Dispatcher.h" in tree.log.read_text()) == ("torch" in command)
