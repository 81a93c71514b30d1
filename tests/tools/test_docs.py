"""The documents stay true: links lead somewhere, and code they quote is code that is compiled."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted(p for p in ROOT.rglob("*.md") if not {"build", ".git"} & set(p.relative_to(ROOT).parts[:-1]))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
QUOTE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{name(page)} links to what is not there: {missing}"


@pytest.mark.parametrize("page", [p for p in PAGES if QUOTE.search(p.read_text())], ids=name)
def test_quoted_code_is_in_the_file_it_names(page):
    for file, quote in QUOTE.findall(page.read_text()):
        assert quote in (ROOT / file).read_text(), f"{name(page)} quotes {file}, which now reads differently:\n{quote}"


def test_cpp_blocks_name_their_file():
    for page in PAGES:
        bare = re.findall(r"^```cpp\s*$", page.read_text(), re.MULTILINE)
        assert not bare, f"{name(page)}: a C++ block without file=..., so nothing compiles it"


@pytest.mark.parametrize("page", ["README.md", "docs/migrating.md", "docs/devices.md"])
def test_python_blocks_run_one_after_the_other(page):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # pylint: disable=exec-used
