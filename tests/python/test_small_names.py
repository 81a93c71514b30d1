"""Names that programs use beside the large ones: helpers, enumerations, torch.ops.poptorch, errors of torch."""

import popart
import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet


def infer(function, *inputs):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), quiet())(*inputs)


# -- helpers ----------------------------------------------------------------------------------------------------------


def test_tensors_of_a_model_have_ids():
    ids = {}

    def forward(x):
        y = x + 1
        ids.update(x=poptorch.getIpuTensorId(x), y=poptorch.getIpuTensorId(y), again=poptorch.getIpuTensorId(y))
        return y

    infer(forward, torch.ones(2))
    assert all(isinstance(number, int) for number in ids.values())
    assert ids["y"] == ids["again"] != ids["x"]
    with pytest.raises(poptorch.Error, match=r"\[getIpuTensorId\] the tensor is on the host"):
        poptorch.getIpuTensorId(torch.ones(2))
    with pytest.raises(poptorch.Error, match=r"\[getIpuTensorId\] expects a tensor, not a int"):
        poptorch.getIpuTensorId(3)


def test_attributes_of_custom_operations_can_be_read():
    assert poptorch.accessAttributes('{"alpha": 0.5, "axes": [0, 1]}') == {"alpha": 0.5, "axes": [0, 1]}
    assert poptorch.accessAttributes("") is None
    with pytest.raises(ValueError, match="given as a str, not 3"):
        poptorch.accessAttributes(3)


def test_metadata_of_saved_models_is_refused_as_saving_is():
    with pytest.raises(poptorch.Error, match="importPoptorchMetadataFromFile"):
        poptorch.importPoptorchMetadataFromFile("file")


@pytest.mark.parametrize("enumeration, members", [
    ("BatchSerializationMethod", ["UnrollDynamic", "UnrollStatic", "Loop"]),
    ("BatchSerializationTransformContext", ["Fwd", "Bwd"]),
    ("AutodiffStitchStrategy", ["RecomputeMinimal", "RecomputeAllNonInputs", "AddFwdOutputs", "SafeAddFwdOutputs"]),
    ("GradientTensorTrackingMethod", ["AllNonViewChangingGradientTensors", "ConvAndMatmulGradients",
                                      "GradientsOfUserSpecifiedTensors"]),
    ("Instrumentation", ["Outer", "Inner"]),
    ("SyncPattern", ["Full", "SinglePipeline", "ReplicaAndLadder"]),
])
def test_enumerations_of_popart(enumeration, members):
    assert [member.name for member in getattr(popart, enumeration)] == members
    assert [int(member) for member in getattr(popart, enumeration)] == list(range(len(members)))


def test_every_enumerated_setting_takes_every_member():
    for key, enumeration in (("batchSerializationSettings.method", popart.BatchSerializationMethod),
                             ("batchSerializationSettings.transformContext", popart.BatchSerializationTransformContext),
                             ("autodiffSettings.stitchStrategy", popart.AutodiffStitchStrategy),
                             ("automaticLossScalingSettings.gradientTensorTrackingMethod",
                              popart.GradientTensorTrackingMethod)):
        for member in enumeration:
            options = quiet()
            options._Popart.set(key, int(member))
            poptorch.inferenceModel(torch.nn.Linear(2, 2), options).compile(torch.ones(1, 2))


@pytest.mark.parametrize("version, is_known", [("ipu1", True), ("ipu2", True), ("ipu21", True), ("", True), ("ipu3", False)])
def test_version_of_the_ipu_model(monkeypatch, version, is_known):
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", version)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + 1), quiet())
    if is_known:
        assert torch.equal(executor(torch.zeros(2)), torch.ones(2))
    else:
        with pytest.raises(poptorch.Error, match='POPTORCH_IPU_MODEL_VERSION is "ipu3"; expected ipu1, ipu2 or ipu21'):
            executor(torch.zeros(2))


# -- torch.ops.poptorch -----------------------------------------------------------------------------------------------

ops = torch.ops.poptorch
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
SAME_INSIDE_AND_OUTSIDE = {
    "identity_loss": lambda x: ops.identity_loss(x, 1),
    "nop": lambda x: ops.nop(x),
    "ipu_print_tensor": lambda x: ops.ipu_print_tensor(x, "title"),
    "dynamic_slice": lambda x: ops.dynamic_slice(x, 1, torch.tensor([2]), 3, 1),
    "dynamic_update": lambda x: ops.dynamic_update(x, x[:2] * 0, 0, torch.tensor([1]), 2),
    "recomputation_checkpoint": lambda x: ops.recomputation_checkpoint(x),
    "set_matmul_serialization": lambda x: ops.set_matmul_serialization(x @ x.t(), "reducing_dim", 2, False),
    "set_available_memory": lambda x: ops.set_available_memory(x @ x.t(), 0.3),
    "internal_cast": lambda x: ops.internal_cast(x, "FLOAT16"),
    "host_side_cast": lambda x: ops.host_side_cast(x),
    "end_cpu_op": lambda x: ops.end_cpu_op([x * 2])[0],
    "update_param_inplace": lambda x: ops.update_param_inplace(x * 1, x + 3),
}


@pytest.mark.parametrize("name", SAME_INSIDE_AND_OUTSIDE)
def test_op_means_the_same_inside_a_model_and_outside(name):
    function = SAME_INSIDE_AND_OUTSIDE[name]
    torch.testing.assert_close(infer(function, X), function(X.clone()))


def test_markers_change_nothing():
    def forward(x):
        ops.push_name_scope("scope")
        ops.set_attribute("group", "key", "value")
        ops.optimizer_group(0, [x])
        x = x + 1
        ops.clear_attribute("group", "key")
        ops.pop_name_scope()
        return x

    assert torch.equal(infer(forward, X), X + 1) and torch.equal(forward(X), X + 1)


def test_convolutions_between_markers_are_planned_together():
    weight = torch.randn(3, 3, 1, 1)

    def forward(x):
        ops.begin_multi_conv()
        y = torch.conv2d(x, weight), torch.conv2d(x, weight * 2)
        ops.end_multi_conv()
        return y[0] + y[1]

    x = torch.randn(1, 3, 2, 2)
    torch.testing.assert_close(infer(forward, x), forward(x))

    def nested(x):
        ops.begin_multi_conv()
        ops.begin_multi_conv()
        return x

    with pytest.raises(poptorch.Error, match="scopes of MultiConv do not nest"):
        infer(nested, x)
    torch.testing.assert_close(infer(forward, x), forward(x))


def test_custom_operation_and_decoder_outside_a_model():
    assert torch.equal(ops.custom_operation([X], "Cube", "none", 1, 1, [X], '{"alpha": 1.0}')[0], torch.zeros(4, 6))
    values, lengths, paths = ops.ctc_beam_search_decoder(X.reshape(2, 4, 3), torch.tensor([2, 2, 2, 2]))
    assert values.shape == lengths.shape == (4, 1) and paths.shape == (4, 1, 2)


# -- errors of torch and of the standard library ----------------------------------------------------------------------


@pytest.mark.parametrize("function, text", [
    (lambda x: x.roll(1, 5), "Dimension out of range"),
    (lambda x: x.view(5, 5), "shape"),
    (lambda x: torch.linalg.inv(x), "square"),
    (lambda x: x.unflatten(0, (3, 3)), "unflatten"),
])
def test_errors_of_torch_have_the_op_and_the_line(function, text):
    with pytest.raises(poptorch.Error, match=rf"(?s)\[\S+\].*{text}.*captured at .*test_small_names.py"):
        infer(function, X)
