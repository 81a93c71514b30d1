"""maxRepeatLogs: how often a line of the log is repeated."""

import poptorch
import pytest
import torch
from poptorch._logging import logger

from support.models import FunctionModel, quiet


@pytest.mark.parametrize("limit", [1, 4, None])
def test_a_line_is_repeated_as_often_as_the_option_says(limit, capfd):
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + 1), quiet().maxRepeatLogs(limit))
    executor(torch.zeros(2))
    capfd.readouterr()
    for _ in range(7):
        logger.warning("the same line")
        logger.warning("another %s", "line")
    text = capfd.readouterr().err
    assert text.count("the same line") == text.count("another line") == (limit or 7)


def test_lines_of_the_core_count_too(capfd):
    """Each model of this kind warns once of its op on the host; the count begins anew with each model."""
    for _ in range(3):
        poptorch.inferenceModel(FunctionModel(lambda self, x: torch.linalg.eigh(x)[0]), quiet().maxRepeatLogs(1))(torch.eye(2))
    assert capfd.readouterr().err.count("aten::_linalg_eigh runs on the host") == 3
    poptorch.poptorch_core.set_log_level("WARN")


def test_four_times_unless_told_otherwise(capfd):
    poptorch.inferenceModel(FunctionModel(lambda self, x: x + 1), quiet())(torch.zeros(2))
    for _ in range(9):
        logger.warning("again and again")
    assert capfd.readouterr().err.count("again and again") == 4
