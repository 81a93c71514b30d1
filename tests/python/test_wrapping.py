"""What wrapping does to a module, and the members of a wrapped model around its weights and devices."""

import copy
import io

import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet

X, TARGET = torch.randn(4, 3), torch.randn(4, 2)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.fc = torch.nn.Linear(3, 2)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, target=None):
        y = self.drop(self.fc(x)) + (100 if self.training else 0)
        if target is None:
            return y
        self.count.add_(1)
        return y, torch.nn.functional.mse_loss(y, target)


def trainer_of(model, options=None):
    return poptorch.trainingModel(model, options or quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1))


# -- the copy that is executed ----------------------------------------------------------------------------------------
def test_flags_of_the_module_itself_are_those_of_the_time_of_wrapping():
    model = Net().eval()
    executor = trainer_of(model, quiet().randomSeed(1))  # of eight numbers, one in 256 seeds drops none
    executor.train()  # the module and its children, but not the copy that is executed
    assert model.training and model.drop.training
    y, _ = executor(X, TARGET)
    assert y.abs().max() < 50  # not training, says the copy
    assert (y == 0).any()  # training, say the children it shares: dropout


def test_an_inference_model_is_the_copy_that_is_executed():
    model = Net().train()
    executor = poptorch.inferenceModel(model, quiet())
    assert executor.model is not model and executor.model.fc is model.fc
    executor.model.eval()
    assert model.training  # the user's own flag is its own
    torch.testing.assert_close(executor(X), model.fc(X).detach())


def test_inference_leaves_the_classes_of_the_module_alone():
    model = Net()
    poptorch.inferenceModel(model, quiet())(X)
    assert type(model) is Net and type(model.fc.weight) is torch.nn.Parameter and type(model.count) is torch.Tensor
    assert not hasattr(model, "destroy")


def test_a_trained_module_can_be_destroyed_and_asked_for_its_weights():
    model = Net()
    executor = trainer_of(model)
    executor(X, TARGET)
    assert model.copyWeightsToHostIfNeeded() and not model.copyWeightsToHostIfNeeded()
    model.destroy()
    assert not executor.isCompiled() and type(model) is Net


def test_buffers_that_are_parameters_are_refused():
    model = Net()
    model._buffers["odd"] = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(poptorch.Error, match='buffer "odd" of Net is a Parameter; buffers must be plain torch.Tensor'):
        poptorch.trainingModel(model, quiet())
    assert type(model) is Net


def test_wrapping_compiles_nothing():
    calls = []
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: (calls.append(1), x + 1)[1]), quiet())
    assert not executor.isCompiled() and calls == []
    executor.compile(X)
    assert executor.isCompiled() and calls == [1]
    executor(X)
    assert calls == [1]


def test_several_inference_models_share_one_module():
    model = Net().eval()
    first, second = (poptorch.inferenceModel(model, quiet()) for _ in range(2))
    assert torch.equal(first(X), second(X))
    with torch.no_grad():
        model.fc.weight.zero_()
        model.fc.bias.fill_(3)
    first.copyWeightsToDevice()
    assert first(X).eq(3).all() and not second(X).eq(3).any()


# -- members ----------------------------------------------------------------------------------------------------------
def test_compiling_twice_is_ignored_aloud(capfd):
    executor = poptorch.inferenceModel(Net().eval(), quiet())
    first = executor(X)
    executor.compile(X[:2])
    assert "compile() is ignored: the model is compiled already" in capfd.readouterr().err
    assert torch.equal(executor(X), first)


def test_only_shapes_and_types_matter_to_compile():
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x * 2), quiet())
    executor.compile(torch.zeros(4, 3))
    assert torch.equal(executor(X), X * 2)


def test_weights_are_copied_to_the_host_if_needed():
    model = Net()
    executor = trainer_of(model)
    executor.compile(X, TARGET)
    assert not executor.copyWeightsToHostIfNeeded()  # nothing has been trained
    executor(X, TARGET)
    assert executor.copyWeightsToHostIfNeeded() and not executor.copyWeightsToHostIfNeeded()


def test_uploading_overwrites_what_was_trained_and_not_read():
    model = Net().eval()
    before = copy.deepcopy(model.state_dict())
    executor = trainer_of(model)
    executor(X, TARGET)
    executor.copyWeightsToDevice()  # the host has the weights of before
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_named_buffers_are_refreshed_only_if_that_was_asked_for():
    executor = poptorch.inferenceModel(Net().eval(), quiet().updatableNamedBuffers(["count"]))
    with pytest.raises(poptorch.Error, match="not compiled"):
        executor.copyNamedBuffersToDevice()
    executor = poptorch.inferenceModel(Net().eval(), quiet())
    executor(X)
    with pytest.raises(poptorch.Error, match="updatableNamedBuffers"):
        executor.copyNamedBuffersToDevice()


def test_loading_state_returns_what_torch_returns_and_reaches_the_device():
    model = Net().eval()
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    state = {"fc.weight": torch.zeros(2, 3), "fc.bias": torch.full((2,), 7.0), "other": torch.zeros(1)}
    with pytest.raises(RuntimeError, match="other"):
        executor.load_state_dict(state)
    result = executor.load_state_dict(state, strict=False)
    assert result.missing_keys == ["count"] and result.unexpected_keys == ["other"]
    assert executor(X).eq(7).all()


def test_random_state_is_a_list_of_numbers():
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + torch.rand_like(x)), quiet().randomSeed(42))
    executor(X)
    state = executor.rng_state
    assert isinstance(state, list) and state[0] == 42 and all(isinstance(number, int) for number in state)


def test_an_executor_is_saved_by_torch():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    executor = poptorch.inferenceModel(model, quiet())
    expected = executor(X)
    buffer = io.BytesIO()
    torch.save(executor, buffer)
    buffer.seek(0)
    restored = torch.load(buffer)
    assert type(restored) is poptorch.PoplarExecutor and not restored.isCompiled()
    assert torch.equal(restored(X), expected)


def test_destroying_a_trainer_that_was_never_compiled_keeps_the_module_wrapped():
    model = Net()
    executor = trainer_of(model)
    executor.destroy()
    assert type(model).__name__ == "PoptorchNet"
    with pytest.raises(RuntimeError, match="destroy"):
        poptorch.trainingModel(model)
    executor(X, TARGET)


# -- weights on both sides --------------------------------------------------------------------------------------------
def test_aliased_tensors_of_a_state_dict_stay_aliased():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight

    class Summed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return poptorch.identity_loss(self.layers(x).square(), "mean")

    wrapped = Summed()
    executor = trainer_of(wrapped)
    executor(X)
    state = wrapped.state_dict()
    assert state["layers.0.weight"].data_ptr() == state["layers.1.weight"].data_ptr()
    executor.destroy()
    assert model[0].weight is model[1].weight


class Branches(torch.nn.Module):
    """Two layers, one behind something that cuts gradients."""

    def __init__(self, cut):
        super().__init__()
        torch.manual_seed(2)
        self.open, self.closed, self.cut = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2), cut

    def forward(self, x):
        return poptorch.identity_loss((self.open(x) + self.cut(self.closed, x)).square(), "mean")


def without_grad(layer, x):
    with torch.no_grad():
        return layer(x)


@pytest.mark.parametrize("cut", [without_grad, lambda layer, x: layer(x).detach()], ids=["no_grad", "detach"])
def test_no_grad_and_detach_cut_gradients(cut):
    model = Branches(cut)
    before = copy.deepcopy(model.state_dict())
    trainer_of(model)(X)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"open.weight", "open.bias"}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_what_is_done_with_a_copy_of_a_wrapped_module_concerns_the_copy_alone(copied, monkeypatch):
    model = Net().eval()
    executor = trainer_of(model)
    executor(X, TARGET)
    other = copied(model)
    assert type(other) is type(model)
    executor(X, TARGET)
    copies = []
    original = executor.copyWeightsToHost
    monkeypatch.setattr(executor, "copyWeightsToHost", lambda: (copies.append(1), original()))
    assert not other.copyWeightsToHostIfNeeded()
    other.destroy()
    assert type(other) is Net and executor.isCompiled() and type(model).__name__ == "PoptorchNet"
    if copied is copy.deepcopy:
        other.state_dict()
        list(other.parameters())
        assert copies == [] and other.count == 1  # its tensors are its own
    assert model.count == 2 and len(copies) == 1


def test_an_inference_run_trains_nothing():
    model = Net().eval()
    before = copy.deepcopy(model.state_dict())
    executor = poptorch.inferenceModel(model, quiet())
    executor(X, TARGET)
    executor.copyWeightsToHost()
    assert torch.equal(model.fc.weight, before["fc.weight"]) and model.count == 1


def test_executors_alternate_on_devices_by_attach_and_detach():
    model = Net().eval()
    trainer = trainer_of(model)
    follower = poptorch.inferenceModel(model, quiet())
    for _ in range(2):
        trainer(X, TARGET)
        trainer.detachFromDevice()
        torch.testing.assert_close(follower(X), model.fc(X).detach())
        follower.detachFromDevice()
    assert model.count == 2
