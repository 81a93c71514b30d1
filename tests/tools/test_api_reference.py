"""docs/api.md: every public name has a docstring and an example, and the examples run."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tools")]

import api_examples  # pylint: disable=wrong-import-position
import api_reference  # pylint: disable=wrong-import-position


def test_every_name_has_an_example():
    names, members = api_reference.own_names()
    assert [name for name in names + members if name not in api_reference.examples_by_name()] == []


def test_every_example_is_of_names_there_are():
    names, members = api_reference.own_names()
    assert [name for name in api_reference.examples_by_name() if name not in names + members] == []


def test_every_name_is_documented():
    names, members = api_reference.own_names()
    assert [name for name in names + members if api_reference.documentation(name) == ""] == []


@pytest.mark.parametrize("names, function", [pytest.param(names, function, id=names[0])
                                             for _, names, function in api_examples.EXAMPLES])
def test_example(names, function, tmp_path):
    assert api_examples.body_of(function)
    api_examples.run(function, tmp_path)


def test_the_document_is_up_to_date():
    written = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert written == api_reference.reference(), "run tools/api_reference.py with the interpreter of `./dev python`"
