"""No test can hang: every entry of ctest and every case of pytest has a limit that holds."""
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"


def test_every_entry_of_ctest_has_a_limit():
    listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, capture_output=True, text=True, check=True)
    tests = json.loads(listing.stdout)["tests"]
    assert len(tests) > 10, "ctest knows no tests: was the build configured with them?"
    for test in tests:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        assert 0 < properties.get("TIMEOUT", 0) <= 1800, f"{test['name']} may run forever; see tests/CMakeLists.txt"


def run_case(folder, body, *arguments):
    """Runs one case under the settings of this repository, with limits of a second."""
    (folder / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (folder / "test_case.py").write_text(textwrap.dedent(body))
    return subprocess.run([sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", folder, folder,
                           *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ASPEN_TEST_GRACE": "1"})


def test_a_case_without_marks_has_the_limit_of_the_settings(pytestconfig):
    assert float(pytestconfig.getini("timeout")) == 300


@pytest.mark.parametrize("wait", ["import time; time.sleep(50)",
                                  "import ctypes; ctypes.CDLL(None).sleep(50)",  # native code, interpreter free
                                  "import ctypes; ctypes.PyDLL(None).sleep(50)"],  # native code that keeps it
                         ids=["python", "native", "native that keeps the interpreter"])
def test_a_case_that_hangs_is_ended_and_shown(tmp_path, wait):
    result = run_case(tmp_path, f"""
        def test_hangs():
            {wait}
        """, "--timeout", "1")
    assert result.returncode not in (0, 5), result.stdout
    assert "test_case.py" in result.stderr and "in test_hangs" in result.stderr, result.stderr


def test_in_two_processes_the_other_cases_still_run(tmp_path):
    result = run_case(tmp_path, """
        import pytest, time
        @pytest.mark.parametrize("i", range(6))
        def test_case(i):
            time.sleep(50 if i == 2 else 0)
        """, "--timeout", "1", "-n", "2")
    assert "1 failed, 5 passed" in result.stdout, result.stdout


def test_a_case_may_ask_for_more_time(tmp_path):
    result = run_case(tmp_path, """
        import pytest, time
        @pytest.mark.timeout(20)
        def test_is_slow():
            time.sleep(3)
        """, "--timeout", "1")
    assert result.returncode == 0, result.stdout + result.stderr
