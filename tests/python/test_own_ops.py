"""poptorch's own functions in a model: what they check, print and keep."""

import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet
from support.training import Function

X = torch.arange(6.0).reshape(2, 3)


def infer(function, *inputs, options=None):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), options or quiet())(*(inputs or (X,)))


# -- printing ---------------------------------------------------------------------------------------------------------
def printed(capfd, *inputs, **settings):
    infer(lambda x: poptorch.ipu_print_tensor(x, **settings), *inputs)
    return capfd.readouterr().err


def test_tensors_are_printed_each_time_the_op_runs(capfd):
    options = quiet().deviceIterations(3)
    infer(lambda x: poptorch.ipu_print_tensor(x, "t") + 1, torch.tensor([[1.0], [2.0], [3.0]]), options=options)
    assert capfd.readouterr().err == "t: (\n (1.000)\n)\nt: (\n (2.000)\n)\nt: (\n (3.000)\n)\n"


def test_a_print_whose_result_is_not_used_is_dropped(capfd):
    infer(lambda x: (poptorch.ipu_print_tensor(x, "unused"), x + 1)[1])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("print_gradient", [True, False])
def test_the_backward_pass_prints_the_gradient(capfd, print_gradient):
    model = Function(lambda self, x: poptorch.ipu_print_tensor(self.scale, "s", print_gradient).sum() * 3)
    poptorch.trainingModel(model, quiet())(torch.zeros(1, 4))
    log = capfd.readouterr().err
    assert "s: (0.500, 0.833, 1.167, 1.500)\n" in log
    assert ("s_gradient: (3.000, 3.000, 3.000, 3.000)\n" in log) == print_gradient


@pytest.mark.parametrize("settings, text", [
    ({"digits": 2}, "(0.0, 1.0, 2.0)"),
    ({"float_format": "scientific", "digits": 3}, "(0.00e+00, 1.00e+00, 2.00e+00)"),
    ({"separator": "; ", "open_bracket": "[", "close_bracket": "]"}, "[0.000; 1.000; 2.000]"),
    ({"summarise_threshold": 2, "edge_items": 1}, "(0.000, ..., 2.000)"),
    ({"max_line_width": 10}, "(0.000, \n  1.000, \n  2.000)"),
])
def test_the_form_of_what_is_printed_can_be_chosen(capfd, settings, text):
    shown = printed(capfd, torch.tensor([0.0, 1.0, 2.0]), title="t", **settings)
    assert "".join(shown.split()) == "".join(f"t: {text}".split())
    assert shown.startswith("t: " + text.split("\n", maxsplit=1)[0].rstrip())


def test_a_title_may_be_left_out(capfd):
    assert printed(capfd, torch.tensor([7], dtype=torch.int32)) == ": (7)\n"


# -- identities -------------------------------------------------------------------------------------------------------
def graph_of(function, training=False):
    model = FunctionModel(lambda self, x: function(x))
    executor = (poptorch.trainingModel if training else poptorch.inferenceModel)(model, quiet())
    executor(X)
    return executor._core.graph_text()


def test_a_nop_is_never_optimised_away():
    plain, kept = graph_of(lambda x: torch.tanh(x) + 1), graph_of(lambda x: poptorch.nop(torch.tanh(x)) + 1)
    assert "= nop(" in kept and "= nop(" not in plain


@pytest.mark.parametrize("proportion", [0.1, 0.6])
def test_available_memory_changes_no_result(proportion):
    weight = torch.randn(3, 4)
    result = infer(lambda x: poptorch.set_available_memory(x @ weight, proportion))
    torch.testing.assert_close(result, X @ weight)


def test_checkpoints_return_what_they_were_given():
    one = infer(lambda x: poptorch.recomputationCheckpoint(x + 1))
    assert isinstance(one, torch.Tensor)
    assert type(infer(lambda x: poptorch.recomputationCheckpoint(x, x))) is tuple
    assert type(infer(lambda x: poptorch.recomputationCheckpoint((x, x)))) is tuple
    assert type(infer(lambda x: poptorch.recomputationCheckpoint([x, x + 1]))) is list
    for wrong in ((3,), (X, "text"), ([X, None],)):
        with pytest.raises(ValueError):
            poptorch.recomputationCheckpoint(*wrong)


# -- products in parts ------------------------------------------------------------------------------------------------
MODES = poptorch.MatMulSerializationMode


@pytest.mark.parametrize("wrong", [("reducing_dim", 2, False), (MODES.ReducingDim, 2.0, False), (MODES.ReducingDim, 2, 1),
                                   (MODES.ReducingDim, 4, False)])
def test_arguments_of_a_product_in_parts_are_checked(wrong):
    with pytest.raises(AssertionError):
        poptorch.serializedMatMul(torch.zeros(2, 6), torch.zeros(6, 2), *wrong)
    with pytest.raises(AssertionError):
        poptorch.serializedMatMul([1.0], torch.zeros(6, 2), MODES.ReducingDim, 2)


def test_partial_sums_of_half_are_kept_in_float_if_asked_for():
    """2048 and 1 are neighbours that half cannot add; in float the ones add up."""
    left = torch.ones(1, 64).half()
    right = torch.ones(64, 1).half()
    right[0] = 2048

    def product(keep):
        return infer(lambda a, b: poptorch.serializedMatMul(a, b, MODES.ReducingDim, 64, keep), left, right)

    exact = torch.tensor([[2048.0 + 63]]).half()
    assert torch.equal(product(True), exact) and product(True).dtype == torch.half
    assert not torch.equal(product(False), exact)


# -- windows ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arguments, text", [
    ((X, 0.5, torch.tensor(0), 1, 1), ""), ((X, 0, 1, 1, 1), "start"), ((X, 0, torch.tensor(0.5), 1, 1), "start"),
    ((X, 0, torch.tensor([0, 1]), 1, 1), "start"), ((X, 0, torch.tensor(0), 1.5, 1), ""),
    ((X, 0, torch.tensor(0), 1, "1"), ""), (([1.0], 0, torch.tensor(0), 1, 1), ""),
    ((X, 0, torch.tensor(0), 0, 1), "size 0"), ((X, 0, torch.tensor(0), 1, 0), "step 0"),
])
def test_arguments_of_a_window_are_checked(arguments, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.dynamic_slice(*arguments)


@pytest.mark.parametrize("size, step, length", [(6, 1, 6), (5, 2, 3), (4, 3, 2), (1, 1, 1)])
def test_windows_have_the_length_of_their_size_over_the_step(size, step, length):
    x = torch.arange(8)
    sliced = infer(lambda x, s: poptorch.dynamic_slice(x, 0, s, size, step), x, torch.tensor([1]))
    assert sliced.tolist() == x[1 : 1 + size : step].tolist() and len(sliced) == length


def test_what_is_written_into_a_window_must_fit():
    start = torch.tensor(0)
    for source in (torch.zeros(3), torch.zeros(1, 3).half(), torch.zeros(1, 3, dtype=torch.int32)):
        with pytest.raises(poptorch.Error, match="same number of dimensions and the same type"):
            poptorch.dynamic_update(X, source, 0, start, 1)
    with pytest.raises(poptorch.Error):
        poptorch.dynamic_update(X, torch.zeros(1, 3), 0, 0, 1)


# -- scopes -----------------------------------------------------------------------------------------------------------
def test_attributes_of_an_outer_scope_come_back():
    seen = []

    def forward(x):
        with poptorch.Attribute(__outline={"a": "1", "b": "2"}):
            with poptorch.Attribute(__outline={"b": "3"}, other={"c": "4"}):
                seen.append(dict(poptorch.Attribute.active))
                x = x + 1
            seen.append(dict(poptorch.Attribute.active))
        seen.append(dict(poptorch.Attribute.active))
        return x * 2

    assert torch.equal(infer(forward), (X + 1) * 2)
    assert seen == [{"__outline": {"a": "1", "b": "3"}, "other": {"c": "4"}}, {"__outline": {"a": "1", "b": "2"}}, {}]


def test_convolutions_planned_together_give_what_separate_ones_give():
    layers = [torch.nn.Conv2d(2, 3, 3) for _ in range(3)]

    def forward(self, x):
        plan = poptorch.MultiConv().availableMemoryProportions([0.1, 0.2, 0.3]).partialsTypes(torch.float)
        plan.enableConvDithering([True, False, True]).planType(poptorch.MultiConvPlanType.Serial)
        with plan.perConvReservedTiles(100).cycleBackOff(0.3):
            y = self.m0(x), self.m1(x), self.m2(x)
        return torch.cat(y)

    x = torch.randn(1, 2, 6, 6)
    model = FunctionModel(forward, *layers)
    result = poptorch.inferenceModel(model, quiet())(x)
    torch.testing.assert_close(result, torch.cat([layer(x) for layer in layers]).detach())
    torch.testing.assert_close(model(x), result)  # on the host the scope does nothing


def test_settings_of_convolutions_are_reset_by_none():
    plan = poptorch.MultiConv().availableMemoryProportions([0.1, 0.2, 0.3, 0.4]).availableMemoryProportions(None)
    plan.planType(poptorch.MultiConvPlanType.Parallel).planType(None)
    layer = torch.nn.Conv1d(1, 1, 2)

    def forward(self, x):
        with plan:
            return self.m0(x)

    x = torch.randn(1, 1, 4)
    torch.testing.assert_close(poptorch.inferenceModel(FunctionModel(forward, layer), quiet())(x), layer(x).detach())
