"""Values changed where torch does not look: the new value keeps the old path of gradients. Ten steps beside eager."""

import poptorch
import pytest
import torch
from torch import nn

from tests.python.support.training import Function, check, random_batches, train_beside_eager


def clamped_weight(m, x):
    with torch.no_grad():
        m.scale.clamp_(0.6, 1.2)
    return (m.first(x) * m.scale).pow(2).mean()


def weight_divided_through_data(m, x):
    m.scale.data.div_(m.scale.data.norm())
    return (m.first(x) * m.scale).pow(2).mean()


def weight_changed_through_detach(m, x):
    m.first.weight.detach().mul_(0.9)
    return m.first(x).pow(2).mean()


def row_of_a_weight(m, x):
    with torch.no_grad():
        m.first.weight[0] *= 0.5
        m.first.weight[:, 1].zero_()
    return m.first(x).pow(2).mean()


def data_assigned(m, x):
    m.scale.data = m.scale.data.clamp(0.6, 1.2)
    return (m.first(x) * m.scale).pow(2).mean()


def data_assigned_after_a_view(m, x):
    view = m.scale[1:3]
    m.scale.data = m.scale.detach() * 0.9
    return (m.first(x) * m.scale).pow(2).mean() + view.pow(2).sum()


def hook_after_a_write_under_no_grad(m, x):
    y = m.first(x)
    early = (y + m.scale).mean()
    with torch.no_grad():
        y.data.div_(2)
    y.register_hook(lambda gradient: gradient * 0.5)
    return early + y.sum() / 10


def activation_under_no_grad(m, x):
    y = m.first(x)
    with torch.no_grad():
        y.clamp_(-0.5, 0.5)
    return (m.second(y) * y).pow(2).mean()


def activation_through_data(m, x):
    y = m.first(x)
    y.data.mul_(2)
    return m.second(y).pow(2).mean()


def slice_of_an_activation_under_no_grad(m, x):
    y = m.first(x) * 1
    with torch.no_grad():
        y[:, :2] = 1
    return (y * m.scale).pow(2).mean()


def view_read_after_a_write_elsewhere(m, x):
    y = m.first(x) * 1
    row = y[0]
    y.mul_(m.scale)
    with torch.no_grad():
        (row * 2).sum()  # reads the view first without gradients
    return row.pow(2).mean()


def detached_view_follows_without_gradient(m, x):
    y = m.first(x) * 1
    kept = y.detach()
    y.mul_(m.scale)
    return (y * kept).mean()


def detached_view_with_a_path_of_its_own(m, x):
    y = m.first(x) * 1
    kept = y.detach()
    kept.mul_(m.scale)
    return (y * 2 + kept).pow(2).mean()


def view_made_under_no_grad(m, x):
    y = m.first(x) * 1
    with torch.no_grad():
        rows = y[1:]
        rows.add_(1)
    return (y * m.scale).pow(2).mean()


def copy_made_under_no_grad(m, x):
    y = m.first(x)
    with torch.no_grad():
        kept = y.clone()
        scale = m.scale.clone()
    return (y * kept * scale).mean() + (y * m.scale).mean()


def conversion_that_changes_nothing(m, x):
    y = m.first(x) * 1
    same, memory = y.to(torch.float32), m.memory.type_as(y)
    y.mul_(m.scale)
    with torch.no_grad():
        m.memory.add_(0.01)
    return (same * (memory + 1)).pow(2).mean()


def reshaped_diagonal(m, x):
    y = m.first(x) * 1
    y.diagonal(0, 0, 1).reshape(-1, 1).copy_(m.scale[:3].view(3, 1))
    return y.pow(2).mean()


def overwritten_whole(m, x):
    y = x * m.scale
    y.zero_()
    return (m.first(x) + y).pow(2).mean()


def overwritten_by_a_copy(m, x):
    y = x * m.scale
    y.copy_(m.first(x))
    return y.pow(2).mean()


def overwritten_through_a_view(m, x):
    y = x * m.scale
    y.view(-1)[:] = m.first(x).reshape(-1)
    return y.pow(2).mean()


def overwritten_row_by_row(m, x):
    y = x * m.scale
    first = m.first(x)
    for i in range(3):
        y[i] = first[i]
    return y[2].pow(2).mean() + y[:2].mean()


def copied_under_no_grad(m, x):
    y = x * m.scale
    with torch.no_grad():
        y.copy_(m.first(x))
    return (y * m.second(x)).mean()


def buffer_written_under_no_grad(m, x):
    y = m.first(x)
    with torch.no_grad():
        m.memory.mul_(0.9).add_(y.mean(0), alpha=0.1)
    return (y * (1 + m.memory)).pow(2).mean()


PROGRAMS = [value for name, value in list(globals().items()) if getattr(value, "__module__", None) == __name__
            and callable(value) and not name.startswith("test")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_keeps_the_path_of_gradients(program):
    check(program)


def test_embedding_with_a_maximal_norm():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = nn.Embedding(6, 4, max_norm=0.7)
            self.linear = nn.Linear(4, 3)

        def forward(self, index):
            return poptorch.identity_loss(self.linear(self.table(index)).pow(2).mean(), reduction="none")

    def batches(step):
        return (torch.tensor([[0, 1, 2], [2, 3, step % 6]]),)

    train_beside_eager(Model(), batches)


def test_data_of_another_shape_is_refused():
    from tests.python.support.training import options

    def forward(m, x):
        m.scale.data = torch.ones(7)
        return m.first(x).mean()

    trainer = poptorch.trainingModel(Function(forward), options())
    with pytest.raises(poptorch.Error, match=r"shape \[4\].*shape \[7\]"):
        trainer(*random_batches()(0))
