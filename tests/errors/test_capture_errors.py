"""The smallest model that cannot be captured or trained, and the message it earns."""

import poptorch
import pytest
import torch


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("state", torch.zeros(3))


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def error_of(forward, wrap=poptorch.inferenceModel):
    cls = type("Model", (Base,), {"forward": forward})
    model = cls()
    with pytest.raises(poptorch.Error) as error:
        wrap(model, quiet())(torch.ones(2, 3))
    model.fc(torch.ones(2, 3))  # the module still works on the host
    return error.value


def test_missing_loss():
    error = error_of(lambda self, x: self.fc(x), poptorch.trainingModel)
    assert "Couldn't find a loss" in error.message and "identity_loss" in error.message


def test_two_losses():
    def forward(self, x):
        y = self.fc(x)
        return torch.nn.functional.mse_loss(y, x), torch.nn.functional.l1_loss(y, x)

    error = error_of(forward, poptorch.trainingModel)
    assert "loss" in error.message and "identity_loss" in error.message


def test_two_losses_joined_by_identity_loss_are_fine():
    def forward(self, x):
        y = self.fc(x)
        total = torch.nn.functional.mse_loss(y, x) + torch.nn.functional.l1_loss(y, x)
        return poptorch.identity_loss(total, "none")

    model = type("Model", (Base,), {"forward": forward})()
    assert poptorch.trainingModel(model, quiet())(torch.ones(2, 3)) > 0


def test_item_inside_forward():
    def forward(self, x):
        return x * self.fc(x).sum().item()

    error = error_of(forward)
    assert error.type == "poptorch_cpp_error"
    assert "item" in error.message and "captured" in error.message
    assert "test_capture_errors.py" in error.location and "forward" in error.location


def test_branch_on_a_value():
    def forward(self, x):
        return x if self.fc(x).sum() > 0 else -x

    assert "torch.where" in error_of(forward).message


def test_buffer_reassigned_in_forward():
    def forward(self, x):
        self.state = self.state + 1
        return x + self.state

    error = error_of(forward)
    assert error.message == (
        '[capture] buffer "state" is assigned a new tensor in forward; on the device it would keep its old value. '
        "Change it in place, e.g. self.state.copy_(value)."
    )


def test_parameter_of_a_child_reassigned_in_forward():
    def forward(self, x):
        self.fc.weight = torch.nn.Parameter(torch.zeros(3, 3))
        return self.fc(x)

    assert 'parameter "fc.weight" is assigned a new tensor' in error_of(forward).message


def test_error_of_the_program_passes_unchanged():
    def forward(self, x):
        raise ZeroDivisionError("mine")

    model = type("Model", (Base,), {"forward": forward})()
    executor = poptorch.inferenceModel(model, quiet())
    for _ in range(2):  # capture leaves nothing behind
        with pytest.raises(ZeroDivisionError, match="mine"):
            executor(torch.ones(2, 3))
    assert not poptorch.isRunningOnIpu()


def test_shape_error_names_the_place():
    def forward(self, x):
        return self.fc(x[:, :2])

    cls = type("Model", (Base,), {"forward": forward})
    with pytest.raises(Exception) as error:
        poptorch.inferenceModel(cls(), quiet())(torch.ones(2, 3))
    assert "test_capture_errors.py" in str(error.value) or "shape" in str(error.value)
