"""Checks of arguments hold under `python -O`, which leaves assert statements out."""

import ast
import pathlib
import subprocess
import sys

import poptorch


def test_no_check_is_an_assert_statement():
    found = []
    for path in sorted(pathlib.Path(poptorch.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{path.name}:{node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert not found


def test_wrong_arguments_are_errors_under_optimization():
    program = """
import poptorch
try:
    poptorch.Options().randomSeed("seven")
except AssertionError as error:
    print("refused:", error)
"""
    result = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True)
    assert "refused: randomSeed expects an int" in result.stdout
