"""Examples of docs/api.md: loaders."""
import torch

import poptorch

from .example import example, section

section("Data")


@example("DataLoader", "DataLoader.combinedBatchSize", "DataLoader.options")
def _(model):
    dataset = torch.utils.data.TensorDataset(torch.randn(100, 4), torch.randint(0, 3, (100,)))
    options = poptorch.Options().deviceIterations(5)
    loader = poptorch.DataLoader(options, dataset, batch_size=4, shuffle=True)
    assert loader.combinedBatchSize == 20  # what a call of the model takes
    trainer = poptorch.trainingModel(model, options)
    for x, labels in loader:
        trainer(x, labels)


@example("DataLoaderMode", "SharingStrategy", "DataLoader.terminate")
def _():
    dataset = torch.utils.data.TensorDataset(torch.arange(101))
    loader = poptorch.DataLoader(
        poptorch.Options(), dataset, batch_size=4, num_workers=2, mode=poptorch.DataLoaderMode.AsyncRebatched,
        async_options={"sharing_strategy": poptorch.SharingStrategy.Fork, "early_preload": True},
    )
    assert len(list(loader)) == 25
    loader.terminate()


@example("AsynchronousDataAccessor", "AsynchronousDataAccessor.terminate")
def _():
    dataset = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
    loader = poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4)
    ahead = poptorch.AsynchronousDataAccessor(loader, sharing_strategy=poptorch.SharingStrategy.Fork)
    assert [item[0].sum().item() for item in ahead] == [6, 22]
    ahead.terminate()
