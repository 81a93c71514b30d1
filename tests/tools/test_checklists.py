"""The checklists of docs/add-an-op.md and docs/add-a-pass.md: every op and every pass there is fulfils them."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
APPS = ROOT / "build" / "release" / "apps"


def text_of(*patterns):
    return "\n".join(p.read_text() for pattern in patterns for p in sorted(ROOT.glob(pattern)))


def checklist(page):
    """The places a checklist names, in its order."""
    section = (ROOT / page).read_text().split("\n## Checklist\n")[1]
    return re.findall(r"^- \[ \] `([^`]+)`", section, re.MULTILINE)


def ops():
    """Name -> which backends have a kernel, from the table that aspen-docs writes."""
    rows = re.findall(r"^\| \[(\w+)\]\(#\w+\) \|(.*)\|$", (ROOT / "docs/ops.md").read_text(), re.MULTILINE)
    columns = {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}
    return {name: {"reference": cells[-2] == "yes", "cpu": cells[-1] == "yes"} for name, cells in columns.items()}


OPS = ops()
FOLDERS = sorted(p for p in (ROOT / "aspen/ops").iterdir() if p.is_dir())
# Read and removed by the compiler.
MARKS = {"body_input", "checkpoint", "custom_gradient", "detach", "gradient_hook", "graft", "loss", "overwrite"}
# Their kernels are made by the compiler, of those of the ops in their graphs.
CONTROL = {"call", "cond", "group", "loop"}


def names(text, pattern):
    """The ops of which `text` holds the pattern, with {} for the name."""
    return {op for op in OPS if re.search(pattern.format(op), text)}


def definitions():
    for folder in FOLDERS:
        assert f"void define_{folder.name}(OpRegistry&" in (folder / f"{folder.name}.cpp").read_text()


def reference_kernels():
    assert {op for op, kernels in OPS.items() if not kernels["reference"]} == MARKS | CONTROL


def cpu_cases():
    covered = names(text_of("tests/cpu/*.cpp"), r'"{}"')
    assert {op for op, kernels in OPS.items() if kernels["cpu"]} - covered == set(), "no case in tests/cpu"


def thread_cases():
    covered = names(text_of("tests/cpu/threads_test.cpp"), r'"{}"')
    folders = {f.name for f in FOLDERS if (f / f"{f.name}.cpu.cpp").exists()}
    without = {f for f in folders if not names(text_of(f"aspen/ops/{f}/*.cpp"), r'"{}"') & covered}
    assert without == set(), "no large case in tests/cpu/threads_test.cpp"


def makers():
    made = names(text_of("poptorch/**/*.cpp", "poptorch/**/*.h", "aspen/compiler/**/*.cpp"), r"\b{}\b")
    made |= {op for op in OPS if op.endswith("_grad")} | names(text_of("aspen/ops/*/*.cpp"), r'times_unary\(c, "{}"\)')
    assert set(OPS) - made == set(), "nothing makes these ops"


def python_cases():
    handled = set(re.findall(r'"aten::(\w+)"', text_of("poptorch/aten/*.cpp")))
    covered = names(text_of("tests/python/test_ops_*.py", "tests/python/support/*.py"), r"\b{}\b")
    assert set(OPS) & handled - covered == set(), "no case in tests/python/test_ops_*.py"


def ops_page():
    subprocess.run([APPS / "aspen-docs", "--check", ROOT / "docs/ops.md"], check=True)


OP_RULES = {
    "aspen/ops/<folder>/<folder>.cpp": definitions,
    "aspen/ops/<folder>/<folder>.ref.cpp": reference_kernels,
    "tests/cpu/*_test.cpp": cpu_cases,
    "tests/cpu/threads_test.cpp": thread_cases,
    "poptorch/aten/*.cpp": makers,
    "tests/python/test_ops_*.py": python_cases,
    "docs/ops.md": ops_page,
}


def test_the_checklist_for_ops_is_the_one_tested():
    assert checklist("docs/add-an-op.md") == list(OP_RULES)


@pytest.mark.parametrize("place", OP_RULES)
def test_every_op_is_complete(place):
    assert len(OPS) > 100
    OP_RULES[place]()


def passes():
    listed = subprocess.run([APPS / "aspen-opt", "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


def one(pattern):
    found = [p for p in ROOT.glob(pattern) if "test" not in p.relative_to(ROOT).parts]
    assert len(found) == 1, f"{len(found)} files {pattern}"
    return found[0]


def header(name):
    text = one(f"aspen/compiler/*/{name}.h").read_text()
    assert "// Expects:" in text or ". Expects:" in text, f"{name}.h does not say what the pass expects"
    assert "Ensures:" in text, f"{name}.h does not say what the pass ensures"


def function(name):
    assert f"void {name}(Graph&" in one(f"aspen/compiler/*/{name}.cpp").read_text()


def pipeline(name):
    text = (ROOT / "aspen/compiler/passes/pipeline.cpp").read_text()
    constant = "k" + "".join(word.capitalize() for word in name.split("_"))
    assert re.search(rf'#include "aspen/compiler/\w+/{name}\.h"', text), "include"
    assert re.search(rf'const Pass {constant}(\s*=\s*optional\(|)\{{\s*"{name}"', text), "constant"
    pipelines, listed = text.split("all_passes()", 1)
    assert re.search(rf"^      {constant},", pipelines, re.MULTILINE), "pipeline"
    assert re.search(rf"\b{constant}\b", listed), "all_passes"


def cases(name):
    assert "// case: " in (ROOT / f"aspen/compiler/passes/test/{name}.ir").read_text()


PASS_RULES = {
    "aspen/compiler/*/<pass>.h": header,
    "aspen/compiler/*/<pass>.cpp": function,
    "aspen/compiler/passes/pipeline.cpp": pipeline,
    "aspen/compiler/passes/test/<pass>.ir": cases,
}


def test_the_checklist_for_passes_is_the_one_tested():
    assert checklist("docs/add-a-pass.md") == list(PASS_RULES)


@pytest.mark.parametrize("place", PASS_RULES)
def test_every_pass_is_complete(place):
    assert len(passes()) > 10
    for name in passes():
        PASS_RULES[place](name)
