"""Parameters are tensors of the device wherever torch asks during a capture, also inside its composite ops."""

import pytest
import torch

from tests.python.support.training import check

PROGRAMS = {
    "inner": lambda m, x: torch.inner(m.first(x), m.scale).pow(2).mean(),
    "meshgrid": lambda m, x: (lambda a, b: (a * b).mean())(*torch.meshgrid(m.first(x)[0], m.scale, indexing="ij")),
    "multi_dot": lambda m, x: torch.linalg.multi_dot([x, m.first.weight, m.second.weight]).pow(2).mean(),
    "take_along_dim": lambda m, x: torch.take_along_dim(m.first.weight[:3], x.argsort(1), 1).mul(x).mean(),
    "quantile": lambda m, x: torch.quantile(m.first(x) * m.scale, torch.tensor([0.25, 0.5]), dim=1).mean(),
    "quantile_by_a_parameter": lambda m, x: torch.quantile(m.first(x), m.scale.detach() / 2, dim=1).mean(),
    "cdist": lambda m, x: torch.cdist(x, m.first.weight).mean(),
    "einsum": lambda m, x: torch.einsum("bi,ij,bj->b", x, m.first.weight, m.second(x)).mean(),
    "tensordot": lambda m, x: torch.tensordot(x, m.first.weight, dims=([1], [0])).pow(2).mean(),
    "kron": lambda m, x: torch.kron(m.first(x), m.scale).mean(),
    "cosine_similarity": lambda m, x: torch.cosine_similarity(m.first(x), m.scale[None], dim=1).mean(),
    "block_diag": lambda m, x: torch.block_diag(m.first(x), m.first.weight).pow(2).mean(),
    "combination_of_parameters": lambda m, x: torch.outer(m.scale, m.scale).matmul(m.first(x).t()).mean(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_meets_a_parameter_in(name):
    check(PROGRAMS[name], lr=0.02)


def test_devices_agree_where_python_asks():
    def forward(m, x):
        assert m.scale.device == x.device == m.first.weight.t().device == m.memory.device
        return (m.first(x.to(m.scale)) * torch.zeros(4, device=m.scale.device).add(1)).pow(2).mean()

    check(forward, steps=2)
