"""Examples of docs/api.md: optimisers and their state."""
import torch

import poptorch

from .example import Network, example, section

section("Optimisers")


@example("optim.SGD")
def _(model, x, labels):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, loss_scaling=128)
    poptorch.trainingModel(model, optimizer=optimizer)(x, labels)


@example("optim.Adam", "optim.AdamW", "optim.AdamW.step", "optim.RMSprop", "optim.LAMB", "optim.LAMB.step")
def _(x, labels):
    for kind in (poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB):
        model = Network()
        optimizer = kind(model.parameters(), lr=1e-3)
        poptorch.trainingModel(model, optimizer=optimizer)(x, labels)


@example("optim.Optimizer", "optim.Optimizer.state_dict", "optim.Optimizer.load_state_dict",
         "optim.Optimizer.ipu_state", "optim.Optimizer.ipu_param", "optim.Optimizer.has_state_to_upload")
def _(model, x, labels, folder):
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=1e-3)
    trainer = poptorch.trainingModel(model, optimizer=optimizer)
    trainer(x, labels)
    torch.save(optimizer.state_dict(), f"{folder}/optimizer.pt")  # the moments of the device, too
    assert isinstance(optimizer, poptorch.optim.Optimizer) and optimizer.ipu_param
    optimizer.load_state_dict(torch.load(f"{folder}/optimizer.pt"))
    assert optimizer.has_state_to_upload  # at the next call
    trainer(x, labels)


@example("optim.VariableAttributes", "optim.VariableAttributes.markAsConstant", "optim.VariableAttributes.markAsVariable",
         "optim.VariableAttributes.isConstant")
def _(model):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    optimizer.variable_attrs.markAsConstant("weight_decay")  # a part of the program
    assert optimizer.variable_attrs.isConstant("weight_decay")
    optimizer.variable_attrs.markAsVariable("momentum")
