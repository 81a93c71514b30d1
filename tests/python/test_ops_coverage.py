"""Every op with a lowering is compared with eager PyTorch by at least one case."""

import importlib
import pathlib

import torch
import poptorch
from poptorch import _captured_torch, poptorch_core
from support import compare

# Compared by tests that look at distributions instead of values.
RANDOM = {"bernoulli", "cauchy", "dropout", "exponential", "geometric", "log_normal", "normal", "rand", "randint",
          "randn", "randperm", "random", "rrelu", "uniform", "alpha_dropout", "feature_alpha_dropout",
          "feature_dropout", "rand_like", "randn_like", "randint_like", "normal_", "bernoulli_", "normal_functional",
          "native_dropout", "_fused_dropout", "rrelu_with_noise", "_standard_gamma", "_sample_dirichlet", "poisson",
          "binomial", "multinomial"}


def all_cases():
    for path in sorted(pathlib.Path(__file__).parent.glob("test_ops_*.py")):
        if path.stem != pathlib.Path(__file__).stem:
            yield from getattr(importlib.import_module(path.stem), "CASES", [])


def capture(case):
    """Captures a case without compiling it."""
    module = compare.Wrapped(case, False).eval()
    core = poptorch_core.Model(False)
    for name, parameter in module.named_parameters():
        core.add_tensor(name, parameter, True)
    inputs = [torch.zeros(1), *compare.non_parameters(case)]
    options = poptorch.Options()
    names = [f"input{i}" for i in range(len(inputs))]
    forward = lambda *traced: list(module(*traced))  # pylint: disable=unnecessary-lambda-assignment
    with _captured_torch.recorded():
        core.capture(forward, inputs, names, options._store, options._execution_strategy, False)


def used_by_cases():
    poptorch_core.restore_handlers()  # also forgets which were used
    for case in all_cases():
        capture(case)
    return set(poptorch_core.used_handlers())


def test_every_lowered_op_has_a_case():
    used = used_by_cases()
    missing = {name for name in poptorch_core.lowered_ops() if name.startswith("aten::")} - used
    missing = {name for name in missing if name[len("aten::"):].split(".")[0] not in RANDOM}
    assert not missing, f"no case reaches {sorted(missing)}"
