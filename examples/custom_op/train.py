"""Trains a small network with the operators of leaky_ops and prints the losses.

    python train.py <path of libleaky_ops.so>
"""

import sys

import poptorch
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x, target):
        x = self.first(x)
        (x,) = poptorch.custom_op([x], "LeakyRelu", "example.ops", 1, example_outputs=[x], attributes={"alpha": 0.1})
        x = self.second(x)
        (x,) = poptorch.custom_op([x], "Cube", "example.ops", 1, example_outputs=[x])
        return torch.nn.functional.mse_loss(x, target)


class Eager(Net):
    """The same with torch's own functions."""

    def forward(self, x, target):
        x = torch.nn.functional.leaky_relu(self.first(x), 0.1)
        return torch.nn.functional.mse_loss(self.second(x) ** 3, target)


def main():
    torch.ops.load_library(sys.argv[1])
    torch.manual_seed(1)
    model, plain = Net(), Eager()
    plain.load_state_dict(model.state_dict())
    trainer = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    x, target = torch.randn(16, 4), torch.randn(16, 2)
    for _ in range(20):
        loss = trainer(x, target)
        optimizer.zero_grad()
        wanted = plain(x, target)
        wanted.backward()
        optimizer.step()
        print(f"{loss.item():.6f} {wanted.item():.6f}")
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main()
