"""Weights of wrapped models, on both sides: who copies them and when."""

import copy
import io
import pickle

import poptorch
import pytest
import torch
from support.executors import TARGET, Trained, X, function_model, model, quiet, trainer, updates  # noqa: F401


def copies(executor, monkeypatch):
    """Counts the copies from the device to the host from now on."""
    counter = []
    original = poptorch.PoplarExecutor.copyWeightsToHost

    def counting(self):
        counter.append(self)
        original(self)

    monkeypatch.setattr(poptorch.PoplarExecutor, "copyWeightsToHost", counting)
    return counter


READS = {
    "attribute": lambda m: m.fc.weight.data,
    "method": lambda m: m.fc.bias.sum(),
    "torch function": lambda m: torch.equal(m.count, m.count),
    "text": lambda m: repr(m.fc.weight),
    "parameters": lambda m: list(m.parameters()),
    "named parameters": lambda m: dict(m.named_parameters()),
    "state_dict": lambda m: m.state_dict(),
    "child state_dict": lambda m: m.fc.state_dict(),
    "call on the host": lambda m: m(X),
    "child call": lambda m: m.fc(X),
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "buffer": lambda m: m.count.item(),
    "numpy": lambda m: m.fc.weight.detach().numpy(),
    "by name": lambda m: m.copyWeightsToHostIfNeeded(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_any_look_copies_once(model, trainer, monkeypatch, read):
    counter = copies(trainer, monkeypatch)
    for _ in range(3):
        trainer(X, TARGET)
    assert counter == []
    read(model)
    read(model)
    assert len(counter) == 1
    trainer(X, TARGET)
    read(model)
    assert len(counter) == 2


def test_host_sees_trained_weights(model, trainer):
    reference = copy.deepcopy(model)
    before = model.fc.weight.data_ptr()
    trainer(X, TARGET)
    updates(reference, [[(X, TARGET)]])
    torch.testing.assert_close(model.fc.weight.data, reference.fc.weight.data)
    assert model.fc.weight.data_ptr() == before  # in place


def test_wrapped_module_keeps_its_nature(model):
    trainer = poptorch.trainingModel(model, quiet())
    assert isinstance(model, Trained) and type(model).__name__ == "PoptorchTrained"
    assert isinstance(model.fc.weight, torch.nn.Parameter)
    trainer(X, TARGET)
    state = model.state_dict()
    assert all(type(value) is torch.Tensor for value in state.values())
    buffer = io.BytesIO()
    torch.save(state, buffer)
    assert b"poptorch" not in buffer.getvalue()
    restored = pickle.loads(pickle.dumps(model))
    assert type(restored) is Trained and type(restored.fc.weight) is torch.nn.Parameter
    assert type(copy.deepcopy(model)) is type(model) is type(copy.copy(model))
    trainer.destroy()
    assert type(model) is Trained and type(model.count) is torch.Tensor
    assert type(model.fc.weight) is torch.nn.Parameter


def test_what_the_device_does_not_change_keeps_its_digits():
    fixed, model = torch.tensor([2**31 - 1, 3]), function_model(lambda self, x, y: (self.m0(x), self.loss(x, y)))
    model.m0 = torch.nn.Linear(3, 2).double()
    model.loss = lambda x, y: torch.nn.functional.mse_loss(model.m0(x) * model.scale + (model.fixed > 0), y)
    model.register_buffer("fixed", fixed.clone())
    model.register_parameter("scale", torch.nn.Parameter(torch.full((2,), 1 / 3, dtype=torch.double), False))
    poptorch.trainingModel(model, quiet())(X.double(), TARGET.double())
    assert torch.equal(model.fixed, fixed) and (model.scale == 1 / 3).all()


def test_parametrised_module():
    parametrised = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 2)).eval()
    torch.testing.assert_close(poptorch.inferenceModel(parametrised, quiet())(X), parametrised(X).detach())

    trained = function_model(lambda self, x, y: torch.nn.functional.mse_loss(self.m0(x), y), parametrised)
    before = parametrised.weight.detach().clone()
    poptorch.trainingModel(trained, quiet(), torch.optim.SGD(trained.parameters(), lr=0.1))(X, TARGET)
    assert not torch.equal(parametrised.weight, before)


def test_module_is_wrapped_once(model, trainer):
    with pytest.raises(RuntimeError, match="destroy"):
        poptorch.trainingModel(model)
    trainer(X, TARGET)
    model.destroy()
    again = poptorch.trainingModel(model, quiet())
    again(X, TARGET)
    assert model.count.item() == 2


def test_forgotten_trainer_leaves_its_weights(model):
    poptorch.trainingModel(model, quiet())(X, TARGET)
    assert type(model) is Trained and model.count.item() == 1


def test_inference_follows_training(model, trainer, monkeypatch):
    trainer(X, TARGET)
    follower = poptorch.inferenceModel(model, quiet())
    counter = copies(trainer, monkeypatch)
    for _ in range(2):
        trainer(X, TARGET)
        result = follower(X)
        torch.testing.assert_close(result, copy.deepcopy(model)(X).detach())
        follower(X)
    assert len(counter) == 2
    from_executor = poptorch.inferenceModel(trainer, quiet())
    torch.testing.assert_close(from_executor(X), follower(X))
    of_child = poptorch.inferenceModel(model.fc, quiet())
    torch.testing.assert_close(of_child(X), follower(X))
    trainer(X, TARGET)
    torch.testing.assert_close(of_child(X), follower(X))


def test_inference_follows_weights_given_to_the_trainer(model, trainer):
    follower = poptorch.inferenceModel(trainer, quiet())
    trainer(X, TARGET)
    follower(X)
    trainer.load_state_dict(Trained().state_dict())
    torch.testing.assert_close(follower(X), model(X).detach())
    with torch.no_grad():
        model.fc.weight.zero_()
    trainer.copyWeightsToDevice()
    torch.testing.assert_close(follower(X), model(X).detach())


def test_inference_wrapped_first_is_not_linked(model):
    early = poptorch.inferenceModel(model, quiet())
    before = early(X)
    trainer = poptorch.trainingModel(model, quiet())
    trainer(X, TARGET)
    assert torch.equal(early(X), before)
    early.copyWeightsToDevice()
    assert not torch.equal(early(X), before)


def test_host_edits_need_an_upload(model, trainer):
    trainer(X, TARGET)
    with torch.no_grad():
        model.fc.weight.zero_()
        model.fc.bias.zero_()
    assert trainer(X, TARGET)[0].abs().sum() > 0
    with torch.no_grad():
        model.fc.weight.zero_()
        model.fc.bias.zero_()
    trainer.copyWeightsToDevice()
    assert trainer(X, TARGET)[0].abs().sum() == 0
    state = {name: torch.ones_like(value) for name, value in model.state_dict().items()}
    assert trainer.load_state_dict(state).missing_keys == []
    torch.testing.assert_close(trainer(X, TARGET)[0], X.sum(1, keepdim=True).expand(4, 2) + 1)


def test_detach_and_attach_continue_exactly(model):
    other = copy.deepcopy(model)
    first = poptorch.trainingModel(model, quiet(), poptorch.optim.AdamW(model.parameters(), lr=0.1))
    second = poptorch.trainingModel(other, quiet(), poptorch.optim.AdamW(other.parameters(), lr=0.1))
    for _ in range(4):
        first(X, TARGET)
        second(X, TARGET)
        second.detachFromDevice()
        assert not second.isAttachedToDevice()
    assert torch.equal(model.fc.weight, other.fc.weight)


def test_tied_parameters_stay_tied():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    model = function_model(lambda self, x: poptorch.identity_loss(self.m1(self.m0(x)), "sum"), first, second)
    reference = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(X)
    loss = reference(X)
    loss.backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    assert model.m0.weight is model.m1.weight
    torch.testing.assert_close(model.m0.weight.data, reference.m0.weight.data)


def test_inference_buffers_stay_on_the_device():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen.add_(1)
            return x + self.seen

    model = Counter()
    executor = poptorch.inferenceModel(model, quiet(2))
    assert executor(torch.zeros(2, 1)).flatten().tolist() == [1, 2]
    assert executor(torch.zeros(2, 1)).flatten().tolist() == [3, 4]
    assert model.seen.item() == 0
    executor.copyWeightsToHost()
    assert model.seen.item() == 4


def test_updatable_buffers_are_uploaded_alone():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(1))
            self.register_buffer("offset", torch.zeros(1))

        def forward(self, x):
            return x * self.scale + self.offset

    model = Scaled()
    executor = poptorch.inferenceModel(model, quiet().updatableNamedBuffers(["scale"]))
    x = torch.ones(2)
    assert executor(x).tolist() == [1, 1]
    model.scale.fill_(3)
    model.offset.fill_(5)
    executor.copyNamedBuffersToDevice()
    assert executor(x).tolist() == [3, 3]
    with pytest.raises(poptorch.Error, match='"none_such"'):
        poptorch.inferenceModel(model, quiet().updatableNamedBuffers(["none_such"]))(x)
