"""Tensors inside a model: their names, and what options.anchorTensor brings to the host after each call."""

import poptorch
import pytest
import torch

from support.models import Layers

Mode = poptorch.OutputMode
D, G, R, B = 4, 3, 2, 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(6, 5, padding_idx=2)
        self.fc1 = torch.nn.Linear(5, 4)
        self.fc2 = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, tokens, labels):
        self.count.add_(1)
        hidden = torch.tanh(self.fc1(self.embedding(tokens)))
        y = self.fc2(hidden)
        return y, torch.nn.functional.cross_entropy(y, labels)


def options(iterations=1, accumulation=1, replicas=1):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    made.replicationFactor(replicas).broadcastBuffers(False).Training.gradientAccumulation(accumulation)
    return made


def batch(rows=B):
    generator = torch.Generator().manual_seed(rows)
    tokens = torch.randint(0, 6, (rows,), generator=generator)
    tokens[0] = 2
    return tokens, torch.randint(0, 3, (rows,), generator=generator)


def sgd(model, **extra):
    return poptorch.optim.SGD(model.parameters(), lr=0.1, **extra)


def trained_on_cpu(model, tokens, labels, iterations=1, accumulation=1, replicas=1):
    """Gradients of every micro-batch and the weights after each update, as torch computes them."""
    gradients, weights = [], []
    rows = len(tokens) // (iterations * accumulation * replicas)
    blocks = iter(zip(tokens.split(rows), labels.split(rows)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = [name for name, _ in model.named_parameters()]
    for _ in range(iterations):
        total = {name: 0 for name in names}
        for _ in range(accumulation * replicas):
            model.zero_grad()
            model(*next(blocks))[1].backward()
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
            total = {name: total[name] + gradients[-1][name] for name in names}
        for name, p in model.named_parameters():
            p.grad = total[name] / (accumulation * replicas)
        optimizer.step()
        weights.append({name: p.detach().clone() for name, p in model.named_parameters()})
    return gradients, weights


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


# -- names ----------------------------------------------------------------------------------------------------------
def names_of(wrap, *args, **kwargs):
    executor = wrap(Net(), options(), *args, **kwargs)
    executor.compile(*batch())
    return executor.getTensorNames()


def test_names_of_a_training_model():
    names = names_of(poptorch.trainingModel)
    assert len(names) == len(set(names))
    parameters = [name for name, _ in Net().named_parameters()]
    for name in parameters:
        assert name in names and f"Gradient___{name}" in names and f"UpdatedVar___{name}" in names
        assert f"scaledLearningRate0___specific___{name}" in names
        assert f"weightDecayScaleFactor0___specific___{name}" in names
    assert "count" in names and "loss" in names
    assert sorted(name for name in names if name.startswith("input")) == ["input___labels", "input___tokens"]
    assert any(name.startswith("fc1/") for name in names) and any(name.startswith("fc2/") for name in names)


def test_names_of_an_inference_model():
    names = names_of(poptorch.inferenceModel)
    assert "fc1.weight" in names and "input___tokens" in names
    assert not any(name.startswith(("Gradient___", "UpdatedVar___", "scaledLearningRate")) for name in names)


def test_names_are_the_same_each_time_whatever_is_anchored():
    names = names_of(poptorch.trainingModel)
    assert names == names_of(poptorch.trainingModel)
    anchored = options()
    anchored.anchorTensor("g", "Gradient___fc1.weight")
    anchored.anchorTensor("a", next(name for name in names if name.startswith("fc1/")))
    executor = poptorch.trainingModel(Net(), anchored)
    executor.compile(*batch())
    assert executor.getTensorNames() == names


def test_every_name_can_be_anchored():
    names = names_of(poptorch.trainingModel, optimizer=None)
    everything = options()
    for index, name in enumerate(names):
        everything.anchorTensor(f"t{index}", name)
    executor = poptorch.trainingModel(Net(), everything)
    plain = poptorch.trainingModel(Net(), options())
    assert torch.equal(executor(*batch())[0], plain(*batch())[0])
    for index, name in enumerate(names):
        assert isinstance(executor.getAnchoredTensor(f"t{index}"), torch.Tensor), name


# -- values ---------------------------------------------------------------------------------------------------------
def test_gradients_and_updates_are_those_of_torch():
    opts = options()
    parameters = [name for name, _ in Net().named_parameters()]
    for name in parameters:
        opts.anchorTensor(f"grad {name}", f"Gradient___{name}")
        opts.anchorTensor(f"new {name}", f"UpdatedVar___{name}")
    model = Net()
    executor = poptorch.trainingModel(model, opts, sgd(model))
    executor(*batch(8))
    gradients, weights = trained_on_cpu(Net(), *batch(8))
    for name in parameters:
        close(executor.getAnchoredTensor(f"grad {name}"), gradients[0][name])
        close(executor.getAnchoredTensor(f"new {name}"), weights[0][name])
        assert torch.equal(executor.getAnchoredTensor(f"new {name}"), dict(model.named_parameters())[name])
    assert executor.getAnchoredTensor("grad embedding.weight")[2].abs().sum() == 0  # padding_idx


def test_activations_loss_and_inputs():
    names = names_of(poptorch.trainingModel)
    opts = options()
    opts.anchorTensor("loss", "loss")
    opts.anchorTensor("tokens", "input___tokens")
    opts.anchorTensor("weight", "fc1.weight")
    for index, name in enumerate(names):
        if "/" in name:
            opts.anchorTensor(f"a{index}", name)
    model = Net()
    executor = poptorch.trainingModel(model, opts, sgd(model))
    tokens, labels = batch(8)
    y, loss = executor(tokens, labels)
    plain = Net()
    assert torch.equal(executor.getAnchoredTensor("loss"), loss)
    assert torch.equal(executor.getAnchoredTensor("tokens"), tokens.int())
    assert torch.equal(executor.getAnchoredTensor("weight"), plain.fc1.weight)  # what the micro-batch was computed with
    hidden = plain.fc1(plain.embedding(tokens)).detach()
    anchored = [executor.getAnchoredTensor(f"a{i}") for i, name in enumerate(names) if name.startswith("fc1/")]
    assert any(t.shape == hidden.shape and torch.allclose(t, hidden, atol=1e-6) for t in anchored)


@pytest.mark.parametrize("mode, period, chosen", [
    (Mode.All, 1, [(d, g) for d in range(D) for g in range(G)]),
    (Mode.EveryN, 2, [(d, g) for d in (1, 3) for g in range(G)]),
    (Mode.Final, 1, [(D - 1, G - 1)]),
    (Mode.Sum, 1, None),
])
def test_modes_with_accumulation_and_replicas(mode, period, chosen):
    opts = options(D, G, R)
    for short, name in (("grad", "Gradient___fc1.weight"), ("new", "UpdatedVar___fc1.weight"), ("loss", "loss"),
                        ("rate", "scaledLearningRate0___specific___fc1.weight")):
        opts.anchorTensor(short, name, mode, period)
    model = Net()
    executor = poptorch.trainingModel(model, opts, sgd(model))
    data = batch(D * G * R * B)
    for _ in range(2):
        executor(*data)
    plain = Net()
    trained_on_cpu(plain, *data, D, G, R)
    before = plain.fc1.weight.detach().clone()
    gradients, weights = trained_on_cpu(plain, *data, D, G, R)
    weights = [before] + [w["fc1.weight"] for w in weights]

    def expected(value):
        blocks = {(d, g): [value(d, g, r) for r in range(R)] for d in range(D) for g in range(G)}
        if chosen is None:
            return torch.cat([sum(blocks[d, g][r] for d in range(D) for g in range(G)) for r in range(R)])
        return torch.cat([block for place in chosen for block in blocks[place]])

    close(executor.getAnchoredTensor("grad"), expected(lambda d, g, r: gradients[(d * G + g) * R + r]["fc1.weight"]))
    # The weights change after the last micro-batch of an update.
    close(executor.getAnchoredTensor("new"), expected(lambda d, g, r: weights[d + (g == G - 1)]))
    assert executor.getAnchoredTensor("loss").shape == (R * (1 if chosen is None else len(chosen)),)
    close(executor.getAnchoredTensor("rate"), expected(lambda d, g, r: torch.tensor([0.1])))


def test_without_a_mode_an_anchor_has_that_of_the_outputs():
    for mode, period, blocks in ((Mode.All, None, 4), (Mode.EveryN, 2, 2), (Mode.Final, None, 1), (Mode.Sum, None, 1)):
        opts = options(4).outputMode(mode, period)
        opts.anchorTensor("bias", "Gradient___fc1.bias")
        opts.anchorTensor("last", "Gradient___fc1.bias", Mode.Final)
        model = poptorch.trainingModel(Net(), opts)
        model(*batch(8))
        assert model.getAnchoredTensor("bias").shape == (4 * blocks,)
        assert model.getAnchoredTensor("last").shape == (4,)


def test_inference():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ReLU()

        def forward(self, x):
            return self.inner(x) * 2

    first = poptorch.inferenceModel(Two(), options(3))
    x = torch.randn(6, 4)
    first(x)
    name = next(name for name in first.getTensorNames() if name.startswith("inner/"))
    opts = options(3)
    opts.anchorTensor("all", name)
    opts.anchorTensor("sum", name, Mode.Sum)
    executor = poptorch.inferenceModel(Two(), opts)
    assert torch.equal(executor(x), x.relu() * 2)
    assert torch.equal(executor.getAnchoredTensor("all"), x.relu())
    close(executor.getAnchoredTensor("sum"), x.relu().reshape(3, 2, 4).sum(0))


@pytest.mark.parametrize("scaling", [1.0, 128.0])
@pytest.mark.parametrize("half", [False, True])
def test_gradients_are_without_loss_scaling(scaling, half):
    opts = options(1, 2)
    opts.anchorTensor("g", "Gradient___0.weight", Mode.All)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    plain = torch.nn.Linear(4, 3)
    plain.load_state_dict(model[0].state_dict())
    x = torch.randn(4, 4)

    class Summed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("0", model[0])

        def forward(self, x):
            return poptorch.identity_loss(getattr(self, "0")(x).float().square().mean(), "sum")

    wrapped = Summed().half() if half else Summed()
    executor = poptorch.trainingModel(wrapped, opts, sgd(wrapped, loss_scaling=scaling))
    executor(x.half() if half else x)
    gradients = []
    for rows in x.split(2):
        plain.zero_grad()
        plain(rows).square().mean().backward()
        gradients.append(plain.weight.grad.clone())
    result = executor.getAnchoredTensor("g")
    assert result.dtype == (torch.half if half else torch.float)
    tolerance = {"rtol": 2e-2, "atol": 2e-3} if half else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(result.float(), torch.cat(gradients), **tolerance)


def test_pipelined_and_phased_models():
    sizes, steps = [6, 9, 8, 7, 4], 9
    torch.manual_seed(5)
    x, y = torch.randn(2 * steps * 2, 6), torch.randn(2 * steps * 2, 4)
    phases = [poptorch.Phase(poptorch.Stage(str(i)).ipu(i % 2)) for i in range(4)]
    results = []
    for strategy in (poptorch.ShardedExecution(poptorch.Stage("0", "1", "2", "3").ipu(0)),
                     poptorch.PipelinedExecution("0", "1", "2", "3"),
                     poptorch.SerialPhasedExecution(*phases)):
        opts = options(2, steps).setExecutionStrategy(strategy)
        model = Layers(sizes)
        for name, _ in model.named_parameters():
            for kind in ("Gradient___", "UpdatedVar___"):
                opts.anchorTensor(kind + name, kind + name, Mode.All)
        opts.anchorTensor("loss", "loss", Mode.All)
        optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01)
        executor = poptorch.trainingModel(model, opts, optimizer)
        executor(x, y)
        results.append({name: executor.getAnchoredTensor(name) for name in opts.anchored_tensors})
        for name, parameter in model.named_parameters():
            assert torch.equal(results[-1]["UpdatedVar___" + name][-len(parameter):], parameter)
    for other in results[1:]:
        for name, tensor in results[0].items():
            assert torch.equal(tensor, other[name]), name


# -- rules ----------------------------------------------------------------------------------------------------------
def test_each_result_is_a_copy_of_its_own():
    opts = options()
    opts.anchorTensor("new", "UpdatedVar___fc1.weight")
    executor = poptorch.trainingModel(Net(), opts)
    executor(*batch())
    first = executor.getAnchoredTensor("new")
    kept = first.clone()
    executor.getAnchoredTensor("new").zero_()
    assert torch.equal(executor.getAnchoredTensor("new"), kept)
    executor(*batch())
    assert torch.equal(first, kept)
    assert not torch.equal(executor.getAnchoredTensor("new"), kept)


def test_unknown_names():
    opts = options()
    opts.anchorTensor("g", "Gradient___fc1.weigth")
    with pytest.raises(poptorch.Error, match=r'no.*"Gradient___fc1.weigth".*Gradient___fc1.weight|does not have') as error:
        poptorch.trainingModel(Net(), opts)(*batch())
    assert "Gradient___fc1.weight" in str(error.value)
    opts = options()
    opts.anchorTensor("g", "Gradient___fc1.weight")
    with pytest.raises(poptorch.Error, match="inference computes no gradients"):
        poptorch.inferenceModel(Net(), opts)(*batch())
    executor = poptorch.trainingModel(Net(), opts)
    with pytest.raises(poptorch.Error, match="has not run"):
        executor.getAnchoredTensor("g")
    executor(*batch())
    with pytest.raises(AssertionError, match='No tensor was anchored as "loss"'):
        executor.getAnchoredTensor("loss")
    opts = options(3)
    opts.anchorTensor("g", "Gradient___fc1.weight", Mode.EveryN, 2)
    with pytest.raises(poptorch.Error, match='period 2 of OutputMode.EveryN of the tensor anchored as "g" does not'):
        poptorch.trainingModel(Net(), opts)(*batch(6))


def test_perf_counters_are_those_of_the_outputs_of_forward():
    opts = options()
    opts.anchorTensor("g", "Gradient___fc1.weight")
    executor = poptorch.trainingModel(Net(), opts)
    executor(*batch())
    assert len(executor.getPerfCounters()["output"]) == 2
