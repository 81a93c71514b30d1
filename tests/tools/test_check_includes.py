"""The include check names the broken arrow, and accepts the tree as it is."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CHECK = ROOT / "tools" / "check_includes.py"


def run_on(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True, text=True)


BASE = {
    "aspen/base/shape.h": "#include <vector>\n",
    "aspen/backends/api/kernel.h": '#include "aspen/base/shape.h"\n',
    "aspen/compiler/ir/graph.h": '#include "aspen/base/shape.h"\n',
    "aspen/runtime/program.h": '#include "aspen/backends/api/kernel.h"\n',
    "aspen/ops/softmax/softmax.h": '#include "aspen/base/shape.h"\n',
    "aspen/ops/softmax/softmax.cpp": '#include "aspen/ops/softmax/softmax.h"\n#include "aspen/compiler/ir/graph.h"\n',
    "aspen/ops/softmax/softmax.ref.cpp": '#include "aspen/backends/api/kernel.h"\n',
    "aspen/ops/softmax/softmax_test.cpp": '#include "aspen/runtime/program.h"\n',
}


def test_accepts_arrows_that_point_down(tmp_path):
    result = run_on(tmp_path, BASE)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path, line, arrow", [
    ("aspen/base/dtype.cpp", '#include "aspen/compiler/ir/graph.h"', "base -> compiler/ir"),
    ("aspen/ops/softmax/extra.h", '#include "aspen/compiler/ir/graph.h"', "op attributes -> compiler/ir"),
    ("aspen/ops/softmax/softmax.cpu.cpp", '#include "aspen/compiler/ir/graph.h"', "cpu kernels -> compiler/ir"),
    ("aspen/ops/softmax/other.cpp", '#include "aspen/backends/api/kernel.h"', "ops -> backends/api"),
    ("aspen/runtime/executor.cpp", '#include "aspen/compiler/ir/graph.h"', "runtime -> compiler/ir"),
    ("aspen/compiler/compile.cpp", "#include <ATen/Tensor.h>", "compiler -> torch"),
    ("aspen/runtime/executor.cpp", "#include <dnnl.hpp>", "runtime -> onednn"),
    ("include/poptorch/model.h", '#include "aspen/base/shape.h"', "public C++ API -> base"),
])
def test_names_the_broken_arrow(tmp_path, path, line, arrow):
    result = run_on(tmp_path, {**BASE, path: f"// first line\n{line}\n"})
    assert result.returncode == 1
    assert f"{path}:2: broken arrow {arrow}:" in result.stdout


def test_names_a_missing_header(tmp_path):
    result = run_on(tmp_path, {**BASE, "aspen/base/a.cpp": '#include "aspen/base/gone.h"\n'})
    assert result.returncode == 1
    assert '"aspen/base/gone.h" does not exist' in result.stdout


def test_the_tree_is_clean():
    result = subprocess.run([sys.executable, CHECK, ROOT], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
