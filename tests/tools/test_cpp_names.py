"""The table of docs/cpp.md: every public name of the Python package with its C++ counterpart, or why there is none."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from public_names import public_names  # pylint: disable=wrong-import-position

HEADERS = {path.name: path.read_text() for path in sorted((ROOT / "include/poptorch").glob("*.h"))}
IDENTIFIERS = set(re.findall(r"\w+", re.sub(r"//.*", "", "\n".join(HEADERS.values()))))


def table():
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", (ROOT / "docs/cpp.md").read_text(), re.MULTILINE)
    assert len(dict(rows)) == len(rows), "a name has two lines"
    return dict(rows)


def row_of(name, rows):
    """The line of a name; a group of options has the lines of Options, optimisers have theirs together."""
    member = name.rsplit(".", 1)[-1]
    for candidate in (name, f"optim.*.{member}" if name.startswith("optim.") else "", f"Options.{member}"):
        if candidate in rows and (candidate == name or candidate.startswith("optim.") or name.startswith("Options.")):
            return rows[candidate]
    return None


def test_every_name_has_a_line():
    rows = table()
    names, _ = public_names()
    assert [name for name in names if name not in rows] == []


def test_every_member_has_a_line_or_the_same_name():
    rows = table()
    missing = []
    for name in public_names()[1]:
        owner, member = name.rsplit(".", 1)
        if rows.get(owner, "").startswith("none: ") or row_of(name, rows) is not None:
            continue
        if member not in IDENTIFIERS:
            missing.append(name)
    assert missing == []


def test_every_line_tells_the_truth():
    names, member_names = public_names()
    known = set(names) | set(member_names) | {f"optim.*.{name.rsplit('.', 1)[1]}" for name in member_names}
    for name, counterpart in table().items():
        assert name in known, f"Python has no {name}"
        if counterpart.startswith("none: "):
            assert len(counterpart) > len("none: ") + 5, f"{name}: why is there none?"
            continue
        found = re.findall(r"`(\w+)`", counterpart)
        assert found and all(word in IDENTIFIERS for word in found), f"{name}: no {counterpart} in include/poptorch"


def test_headers_are_light():
    heavy = re.compile(r"#include <(torch/(torch|all|extension)\.h|pybind11|nlohmann|fmt|spdlog)")
    assert [name for name, text in HEADERS.items() if heavy.search(text)] == []
