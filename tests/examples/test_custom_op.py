"""The example of docs/custom-ops.md: a library built outside the tree against the installed package, used by a C++
program and from Python. Both train to the losses of eager PyTorch and check so themselves."""

import ctypes
import pathlib
import subprocess
import sys

import poptorch
import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("custom_op")
    run("cmake", "--install", BUILD, "--component", "cpp", "--prefix", folder / "prefix")
    run("cmake", "-S", ROOT / "examples/custom_op", "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")
    run("cmake", "--build", folder / "build")
    return folder / "build"


@pytest.fixture(scope="module")
def library(built):
    path = built / "libleaky_ops.so"
    ctypes.cdll.LoadLibrary(str(path))
    return path


def assert_losses_fall(printed):
    losses = [float(line.split()[0]) for line in printed.splitlines()]
    assert len(losses) == 20 and losses[-1] < losses[0]


@pytest.mark.timeout(600)
def test_cpp_program_trains_to_the_losses_of_eager(built):
    assert_losses_fall(run(built / "train", built / "libleaky_ops.so"))


def test_python_program_trains_to_the_losses_of_eager(built):
    assert_losses_fall(run(sys.executable, ROOT / "examples/custom_op/train.py", built / "libleaky_ops.so"))


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        y = self.function(self, x)
        return (y, poptorch.identity_loss(y, "sum")) if self.training else y


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def infer(function, x):
    return poptorch.inferenceModel(Calls(lambda self, x: function(x)).eval(), quiet())(x)


def leaky(x, **attributes):
    return poptorch.custom_op([x], "LeakyRelu", "example.ops", 1, [x], attributes or {"alpha": 0.25})[0]


def test_computes_in_inference(library):
    x = torch.randn(2, 3)
    torch.testing.assert_close(infer(lambda x: leaky(x * 2), x), torch.nn.functional.leaky_relu(x * 2, 0.25))
    assert isinstance(poptorch.custom_op([x], "Cube", "example.ops", 1, [x]), list)


def test_gives_zeros_outside_a_model(library):
    assert torch.equal(leaky(torch.ones(2, 3)), torch.zeros(2, 3))


def test_the_shape_rule_is_checked(library):
    with pytest.raises(poptorch.Error, match=r"(?s)\[custom_op example.ops.Cube version 1\] gives \(Float\[2, 3\]\) for "
                                             r"inputs.*but the example outputs are \(Float\[4\]\).*test_custom_op.py"):
        infer(lambda x: poptorch.custom_op([x], "Cube", "example.ops", 1, [torch.zeros(4)])[0], torch.ones(2, 3))


def test_unknown_operators_are_named(library):
    for name, domain, version in (("Cubes", "example.ops", 1), ("Cube", "examples", 1), ("Cube", "example.ops", 2)):
        with pytest.raises(poptorch.Error, match=rf"\[custom_op {domain}.{name} version {version}\] no such operator is "
                                                 r"registered.*Registered: example.ops.Cube version 1, "):
            infer(lambda x: poptorch.custom_op([x], name, domain, version, [x])[0], torch.ones(2, 3))


def test_what_the_kernel_throws_names_the_line(library):
    with pytest.raises(poptorch.Error, match=r'(?s)attribute "alpha" is not given.*test_custom_op.py'):
        infer(lambda x: leaky(x, beta=1.0), torch.ones(2, 3))
    with pytest.raises(poptorch.Error, match='attribute "alpha" is an int, which the operator does not expect'):
        infer(lambda x: leaky(x, alpha=1), torch.ones(2, 3))


def test_an_operator_without_gradient_is_no_part_of_a_loss(library):
    def forward(self, x):
        y = x * self.scale
        return poptorch.custom_op([y, y], "LeakyReluGrad", "example.ops", 1, [y], {"alpha": 0.1})[0]

    with pytest.raises(poptorch.Error, match=r"LeakyReluGrad version 1\] has no gradient, and the loss wants one"):
        poptorch.trainingModel(Calls(forward), quiet())(torch.ones(2, 3))
    # Where none is wanted it may be used.
    def detached(self, x):
        return poptorch.custom_op([x, x], "LeakyReluGrad", "example.ops", 1, [x], {"alpha": 0.1})[0] * self.scale

    assert torch.equal(poptorch.trainingModel(Calls(detached), quiet())(torch.ones(2, 3))[0], torch.ones(2, 3))


# -- arguments, which need no library -----------------------------------------------------------------------------------


def call(**changed):
    arguments = dict(inputs=[torch.ones(2)], name="Cube", domain="d", domain_version=1, example_outputs=[torch.ones(2)])
    return poptorch.custom_op(**{**arguments, **changed})


@pytest.mark.parametrize("attributes", [
    {1: 2}, {"k": None}, {"k": [1, 2.0]}, {"k": [1, "a"]}, {"k": []}, {"k": {}}, {"k": [[1]]}, {"ключ": 1}, {"k": "é"},
    {"k": ["a", "ü"]}, [("k", 1)], {"k": torch.ones(1)},
], ids=repr)
def test_wrong_attributes_are_value_errors(attributes):
    with pytest.raises(ValueError, match="[Aa]ttribute"):
        call(attributes=attributes)


@pytest.mark.parametrize("changed", [dict(inputs=torch.ones(2)), dict(inputs=[1]), dict(name=3), dict(domain=None),
                                     dict(domain_version="1"), dict(example_outputs=[None])], ids=repr)
def test_wrong_arguments_are_value_errors(changed):
    with pytest.raises(ValueError, match="of custom_op must be"):
        call(**changed)


@pytest.mark.parametrize("value", [1e39, -1e300, [1.0, 1e40], 1 << 63, [-(1 << 70)]], ids=repr)
def test_numbers_out_of_range_are_errors(value):
    with pytest.raises(poptorch.Error, match='attribute "k" is .*, which (float32|64 bits) cannot hold'):
        call(attributes={"k": value})


def test_attributes_of_every_kind_are_accepted():
    values = {"f": 1.5, "i": -(1 << 63), "s": "text", "fs": [1.0, 2.0], "is": (1, 2), "ss": ["a", "b"]}
    assert torch.equal(call(attributes=values)[0], torch.zeros(2))
