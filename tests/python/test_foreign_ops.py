"""Ops that another library registers run on the host, with the gradients that library gives them."""

import copy
import subprocess

import poptorch
import pytest
import torch

LIBRARY = torch.library.Library("aspen_foreign", "DEF")
LIBRARY.define("cpu_only(Tensor x) -> Tensor")
LIBRARY.define("for_all_devices(Tensor x, Tensor index) -> Tensor")
LIBRARY.define("fails(Tensor x) -> Tensor")


def _reads_memory(x):
    assert x.device.type == "cpu" and x.data_ptr() != 0
    return x * 2


class Doubled(torch.autograd.Function):
    """Twice the input; a gradient of its own, by which it is recognised."""

    @staticmethod
    def forward(ctx, x, index):
        return _reads_memory(x)[index]

    @staticmethod
    def backward(ctx, g):
        return torch.full((4,), 5.0) * g.sum(), None


def _fails(x):
    if x.min() < 0:
        raise ValueError("a negative number")
    return x * 2


LIBRARY.impl("cpu_only", _reads_memory, "CPU")
LIBRARY.impl("for_all_devices", Doubled.apply, "CompositeImplicitAutograd")
LIBRARY.impl("fails", _fails, "CPU")


def options():
    return poptorch.Options().showCompilationProgressBar(False)


def inference(function):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, options())


def test_op_with_a_kernel_for_the_cpu():
    executor = inference(lambda x: torch.ops.aspen_foreign.cpu_only(x + 1) + 1)
    assert torch.equal(executor(torch.ones(4)), torch.full((4,), 5.0))
    assert "aspen_foreign::cpu_only" in executor._core.host_calls()


def test_op_with_one_kernel_for_all_devices():
    executor = inference(lambda x, i: torch.ops.aspen_foreign.for_all_devices(x + 1, i) + 1)
    assert torch.equal(executor(torch.arange(4.0), torch.tensor([2, 0])), torch.tensor([7.0, 3.0]))
    assert "aspen_foreign::for_all_devices" in executor._core.host_calls()


class Scaled(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, torch.nn.Parameter(torch.arange(1.0, 5.0))

    def forward(self, index):
        y = self.function(self.weight * 3, index) * 2
        return y, poptorch.identity_loss(y.sum(), "none")


def check_training(function):
    model = Scaled(function)
    eager = copy.deepcopy(model)
    index = torch.tensor([2, 0])
    trainer = poptorch.trainingModel(model, options(), torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(3):
        y, _ = trainer(index)
        optimizer.zero_grad()
        expected, loss = eager(index)
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(y, expected.detach())
    torch.testing.assert_close(model.weight.detach(), eager.weight.detach())


def test_its_own_gradient_trains():
    check_training(torch.ops.aspen_foreign.for_all_devices)


def test_an_exception_of_a_python_kernel_names_op_text_and_line():
    executor = inference(lambda x: torch.ops.aspen_foreign.fails(x))
    assert torch.equal(executor(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(poptorch.Error,
                       match=r"(?s)\[aspen_foreign::fails\].*ValueError: a negative number.*test_foreign_ops.py"):
        executor(-torch.ones(3))
    assert torch.equal(executor(torch.ones(3)), torch.full((3,), 2.0)), "the executor is as good as before"


SOURCE = r"""
#include <torch/script.h>
#include <stdexcept>

// As torch_scatter does it: one function for all devices, which reads memory and has a gradient of its own.
class RowSum : public torch::autograd::Function<RowSum> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, torch::Tensor index) {
    context->save_for_backward({index});
    context->saved_data["size"] = x.sizes();
    auto result = torch::zeros({index.size(0)}, x.options());
    for (int64_t i = 0; i < index.size(0); ++i) {
      int64_t row = index.data_ptr<int64_t>()[i];
      if (row < 0) throw std::out_of_range("a negative row");
      result.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[row];
    }
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto sizes = context->saved_data["size"].toIntVector();
    auto index = context->get_saved_variables()[0];
    return {torch::zeros(sizes).index_add(0, index, 2 * gradients[0]), torch::Tensor()};
  }
};

torch::Tensor rows(torch::Tensor x, torch::Tensor index) { return RowSum::apply(x, index); }

TORCH_LIBRARY(aspen_foreign_native, library) { library.def("rows", &rows); }
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """A library in C++, as a user compiles it against torch."""
    from torch.utils import cpp_extension
    folder = tmp_path_factory.mktemp("foreign")
    source, library = folder / "foreign.cpp", folder / "libforeign.so"
    source.write_text(SOURCE)
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    links = [f"-L{path}" for path in cpp_extension.library_paths()]
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    subprocess.run(["c++", "-O0", "-std=c++17", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *includes,
                    str(source), "-o", str(library), *links, "-ltorch_cpu", "-lc10"], check=True)
    torch.ops.load_library(str(library))
    return torch.ops.aspen_foreign_native


def test_native_op_with_one_kernel_for_all_devices_trains(native):
    check_training(native.rows)


def test_a_standard_exception_of_a_native_op(native):
    executor = inference(lambda x, i: native.rows(x * 1, i))
    executor(torch.ones(3), torch.tensor([2, 0]))
    with pytest.raises(poptorch.Error,
                       match=r"(?s)\[aspen_foreign_native::rows\].*a negative row.*test_foreign_ops.py"):
        executor(torch.ones(3), torch.tensor([2, -1]))
