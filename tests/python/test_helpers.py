"""Helpers around a model: the log, errors, parsers of custom types, hooks, the text of a module."""

import logging
import os
import re
import subprocess
import sys

import poptorch
import pytest
import torch
from poptorch._logging import logger

from support.models import FunctionModel, quiet

X = torch.arange(6.0).reshape(2, 3)


def infer(function, *inputs):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), quiet())(*inputs)


# -- the log ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def log_level():
    yield poptorch.setLogLevel
    poptorch.setLogLevel("WARN")


LINE = r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch::python\] \[%s\] %s"


def test_lines_of_the_log_have_time_name_and_level(capfd):
    logger.warning("a line of %s", "text")
    assert re.fullmatch(LINE % ("warning", "a line of text") + "\n", capfd.readouterr().err)  # no colours: not a terminal


def test_lines_are_coloured_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    logger.warning("a coloured line")
    assert "\033[" in capfd.readouterr().err


@pytest.mark.parametrize("level, shown", [("TRACE", "dmwe"), ("DEBUG", "dmwe"), ("INFO", "mwe"), ("WARN", "we"),
                                          ("ERR", "e"), ("OFF", ""), (0, "dmwe"), (1, "dmwe"), (2, "mwe"), (3, "we"),
                                          (4, "e"), (6, ""), ("TRACE_ALL", "dmwe"), ("DEBUG_IR", "dmwe")])
def test_the_level_chooses_what_is_logged(log_level, level, shown, capfd):
    log_level(level)
    letters = {"d": logging.DEBUG, "m": logging.INFO, "w": logging.WARNING, "e": logging.ERROR}
    for letter, of_line in letters.items():
        logger.log(of_line, "letter %s at %s", letter, level)  # no line twice
    assert re.findall(r"letter (\w)", capfd.readouterr().err) == list(shown)


def test_the_level_is_that_of_the_core_too(log_level, capfd):
    """Compilation logs its passes at DEBUG."""
    log_level("DEBUG")
    infer(lambda x: x + 1, X)
    assert "pass" in capfd.readouterr().err
    log_level("WARN")
    infer(lambda x: x + 1, X)
    assert capfd.readouterr().err == ""


# -- errors -----------------------------------------------------------------------------------------------------------
def test_errors_of_python_and_of_the_core_differ_in_type_and_location():
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(3)
    assert error.value.type == "poptorch_py_error" and error.value.location == ""
    assert str(error.value) == f"'poptorch_py_error': {error.value.message}"
    with pytest.raises(poptorch.Error) as error:
        infer(lambda x: x.view(7), X)
    assert error.value.type == "poptorch_cpp_error" and "test_helpers.py" in error.value.location
    assert str(error.value) == f"'poptorch_cpp_error': {error.value.message}\n  {error.value.location}"


# -- custom types -----------------------------------------------------------------------------------------------------
class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class SpecialBox(Box):
    pass


class BoxParser(poptorch.ICustomArgParser):
    def __init__(self, offset=0):
        self.offset = offset

    def yieldTensors(self, struct):
        yield struct.tensor

    def reconstruct(self, original_structure, tensor_iterator):
        return type(original_structure)(next(tensor_iterator) + self.offset)


@pytest.fixture
def register():
    yield poptorch.registerCustomArgParser
    poptorch.registerCustomArgParser(Box, None)
    poptorch.registerCustomArgParser(SpecialBox, None)


def opened(box):
    return infer(lambda b: b.tensor * 2, box)


def test_parsers_are_abstract():
    with pytest.raises(TypeError, match="abstract"):
        poptorch.ICustomArgParser()


def test_a_later_parser_replaces_the_earlier_one(register):
    register(Box, BoxParser())
    register(Box, BoxParser(offset=1))
    assert torch.equal(opened(Box(X)), (X + 1) * 2)


def test_a_parser_that_was_removed_is_not_used(register):
    register(Box, BoxParser(offset=1))
    register(Box, None)
    assert torch.equal(opened(Box(X)), X * 2)  # a constant now


def test_the_parser_of_the_exact_type_comes_before_that_of_a_base_class(register):
    register(Box, BoxParser())
    assert torch.equal(opened(SpecialBox(X)), X * 2)
    register(SpecialBox, BoxParser(offset=1))
    assert torch.equal(opened(SpecialBox(X)), (X + 1) * 2) and torch.equal(opened(Box(X)), X * 2)


# -- hooks ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("register", [poptorch.registerPreCompileHook, poptorch.registerPostCompileHook])
def test_compile_hooks_are_callables_with_a_handle(register):
    with pytest.raises(RuntimeError, match="callable"):
        register("text")
    calls = []
    with register(lambda: calls.append(1)) as handle:
        assert isinstance(handle, torch.utils.hooks.RemovableHandle)
        infer(lambda x: x + 1, X)
    infer(lambda x: x + 1, X)
    assert calls == [1]


def test_the_post_compile_hook_runs_after_a_failed_capture():
    calls = []
    handle = poptorch.registerPostCompileHook(lambda: calls.append(1))
    with pytest.raises(poptorch.Error):
        infer(lambda x: x.view(7), X)
    handle.remove()
    assert calls == [1]


# -- hardware and modules ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("variable", ["POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"])
def test_a_model_of_the_ipu_is_no_hardware(variable, monkeypatch):
    monkeypatch.setenv(variable, "0")
    assert poptorch.ipuHardwareIsAvailable() and poptorch.ipuHardwareVersion() in (2, 21)
    monkeypatch.setenv(variable, "1")
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError, match=variable):
        poptorch.ipuHardwareVersion()


def test_a_device_of_as_many_ipus_is_available():
    assert [poptorch.ipuHardwareIsAvailable(n) for n in (1, 64, 65)] == [True, True, False]


def test_modules_are_printed_with_their_blocks(capsys):
    model = torch.nn.Sequential(torch.nn.ReLU(), poptorch.BeginBlock(torch.nn.Linear(2, 3), "b", ipu_id=1))
    text = ("Sequential(\n  (0): ReLU()\n"
            "  (1): BeginBlock(user_id=b, ipu_id=1) Linear(in_features=2, out_features=3, bias=True)\n)")
    assert poptorch.module_repr(model) == text
    poptorch.print(model)
    assert capsys.readouterr().out == text + "\n"
    assert repr(poptorch.inferenceModel(model)) == text


def test_trace_points_change_nothing_unless_they_are_asked_for():
    channel = poptorch.profiling.Channel("mine")

    class Adder:
        def add(self, x, *, y):
            return x + y

    adder = Adder()
    assert channel.instrument(adder, "add") is adder and adder.add(1, y=2) == 3
    with channel.tracepoint("point"):
        adder.add(3, y=4)
    with pytest.raises(AttributeError, match="subtract"):
        channel.instrument(adder, "subtract")


# -- what the environment says when the package is imported -----------------------------------------------------------
def run(program, **environment):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("POPTORCH_LOG", "RDMAV"))}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120,
                          env={**kept, **environment})


def test_the_initial_level_comes_from_the_environment():
    program = ("import logging, poptorch; logger = logging.getLogger('poptorch::python');"
               "logger.info('an info'); logger.warning('a warning')")
    assert "an info" in run(program, POPTORCH_LOG_LEVEL="INFO").stderr
    text = run(program).stderr
    assert "an info" not in text and "a warning" in text  # WARN unless told otherwise
    assert run(program, POPTORCH_LOG_LEVEL="OFF").stderr == ""


def test_importing_makes_forks_safe_for_rdma():
    program = "import os, poptorch; print(os.environ['RDMAV_FORK_SAFE'])"
    assert run(program).stdout == "1\n"
    assert run(program, RDMAV_FORK_SAFE="0").stdout == "0\n"


CORE_LINE = ("import poptorch, torch; poptorch.inferenceModel(torch.nn.Linear(2, 2), "
             "poptorch.Options().showCompilationProgressBar(False))(torch.ones(1, 2))")


def test_lines_of_the_core_go_where_the_environment_says(tmp_path):
    result = run(CORE_LINE, POPTORCH_LOG_LEVEL="DEBUG")
    assert "pass" in result.stderr and result.stdout == ""
    result = run(CORE_LINE, POPTORCH_LOG_LEVEL="DEBUG", POPTORCH_LOG_DEST="stdout")
    assert "pass" in result.stdout and "pass" not in result.stderr
    file = tmp_path / "log.txt"
    result = run(CORE_LINE, POPTORCH_LOG_LEVEL="DEBUG", POPTORCH_LOG_DEST=str(file))
    assert "pass" in file.read_text() and "pass" not in result.stderr
