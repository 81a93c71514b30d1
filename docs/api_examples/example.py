"""How the examples of docs/api.md are kept and run: each is the body of a function and runs as it stands.

An example may show several names that belong together. Its arguments are made afresh: `model`, `x` and `labels` as in
`fresh` below, and `folder`, an empty directory.
"""
import contextlib
import inspect
import io
import textwrap

import torch

EXAMPLES = []  # (section, names, function)
_section = ""


def section(title):
    global _section
    _section = title


def example(*names):
    def keep(function):
        EXAMPLES.append((_section, names, function))
        return function

    return keep


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Linear(4, 8)
        self.layer2 = torch.nn.Linear(8, 3)

    def forward(self, x, labels=None):
        x = self.layer2(self.layer1(x).relu())
        return x if labels is None else (x, torch.nn.functional.cross_entropy(x, labels))


def fresh():
    return {"model": Network(), "x": torch.randn(16, 4), "labels": torch.randint(0, 3, (16,))}


def body_of(function):
    """The lines of an example."""
    lines = inspect.getsource(function).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return textwrap.dedent("\n".join(lines[start + 1 :])).strip("\n")


def run(function, folder):
    given = {**fresh(), "folder": str(folder)}
    with contextlib.redirect_stdout(io.StringIO()):
        function(**{name: given[name] for name in inspect.signature(function).parameters})
