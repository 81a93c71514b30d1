"""No test hangs: pytest-timeout ends a test that takes too long, and a watchdog below ends what pytest-timeout cannot.

The time limit is in pyproject.toml; a test that needs another is marked with @pytest.mark.timeout(seconds).
pytest-timeout runs in Python. Native code that never gives the interpreter back would stop it too, so faulthandler's own
thread, which needs no interpreter, prints all stacks and ends the process a little later.
"""
import faulthandler
import os
import shutil
import tempfile

import pytest

# Devices that tests are attached to are nobody's business outside this run of pytest.
os.environ["ASPEN_IPU_LOCK"] = os.path.join(tempfile.gettempdir(), f"aspen-ipus-{os.getpid()}.lock")
os.environ["ASPEN_CHOICES_DIR"] = tempfile.mkdtemp(prefix="aspen-choices-")  # nor is what is fastest
os.environ.setdefault("ASPEN_VERIFY", "1")  # graphs are checked after each pass, as a release build would not do

GRACE = float(os.environ.get("ASPEN_TEST_GRACE", 30))  # seconds pytest-timeout has for itself


def limit_of(item):
    marker = item.get_closest_marker("timeout")
    if marker and (marker.args or "timeout" in marker.kwargs):
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    given = item.config.getoption("timeout")
    return float(item.config.getini("timeout") if given is None else given)


# Folders whose tests take long. pytest-xdist deals tests out in the order of the list, at first in large pieces: the
# files of these folders are spread over the first part of it, so that no process is left with all of them at the end.
LONG = {"examples", "fuzz", "models", "ops_sweep", "programs"}


def pytest_collection_modifyitems(items):
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    long = [path for path in files if path.parent.name in LONG]
    short = [path for path in files if path.parent.name not in LONG]
    gap = max(1, len(short) * 6 // 10 // max(1, len(long)))
    order = []
    for index, path in enumerate(short):
        if index % gap == 0 and long:
            order.append(long.pop(0))
        order.append(path)
    items[:] = [item for path in order + long for item in files[path]]


def pytest_configure(config):
    config.stderr_without_capture = os.dup(2)


def pytest_unconfigure(config):
    os.close(config.stderr_without_capture)
    if os.path.exists(os.environ["ASPEN_IPU_LOCK"]):
        os.remove(os.environ["ASPEN_IPU_LOCK"])
    shutil.rmtree(os.environ["ASPEN_IPU_LOCK"] + ".attached", ignore_errors=True)
    shutil.rmtree(os.environ["ASPEN_CHOICES_DIR"], ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    limit = limit_of(item)
    if limit > 0:
        faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=item.config.stderr_without_capture)
    yield
    faulthandler.cancel_dump_traceback_later()
