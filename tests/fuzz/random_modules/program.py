"""A module as text: statements that can be deleted one by one, printed as Python that anybody can read and run."""

import ast
import copy
import dataclasses
import functools
import pathlib
import re
import textwrap

from . import training

HEADER = """import poptorch
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
"""

_FOLDER = pathlib.Path(__file__).parent


def _words(text):
    return set(re.findall(r"\w+", text))


@functools.lru_cache(None)
def _library():
    """name -> (text, names of others it uses), in the order of the files."""
    texts = {}
    for file in ("functions.py", "modules.py"):
        source = (_FOLDER / "library" / file).read_text()
        for node in ast.parse(source).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.Assign)):
                name = node.targets[0].id if isinstance(node, ast.Assign) else node.name
                texts[name] = ast.get_source_segment(source, node)
    return {name: (text, (_words(text) & texts.keys()) - {name}) for name, text in texts.items()}


def _named_in(text):
    """The texts of all definitions of the library that `text` names, and those that these name."""
    library, wanted = _library(), set()

    def want(name):
        if name not in wanted:
            wanted.add(name)
            for other in library[name][1]:
                want(other)

    for name in _words(text) & library.keys():
        want(name)
    return [text for name, (text, _) in library.items() if name in wanted]


@dataclasses.dataclass
class Program:
    seed: int
    setup: list = dataclasses.field(default_factory=list)    # statements of __init__
    forward: list = dataclasses.field(default_factory=list)  # statements of forward
    losses: list = dataclasses.field(default_factory=list)   # expressions, each a number: the loss is their sum
    results: list = dataclasses.field(default_factory=list)  # further expressions that forward returns
    mark: str = 'poptorch.identity_loss(loss, "sum")'        # the final loss, made of `loss`
    config: dict = dataclasses.field(default_factory=dict)   # see `training.py`
    kinds: list = dataclasses.field(default_factory=list)    # the ingredients it was made of

    def copy(self):
        """One to be changed: what was found out about this one does not go with it."""
        return Program(**{field.name: copy.deepcopy(getattr(self, field.name)) for field in dataclasses.fields(self)})

    @property
    def arguments(self):
        return [f"x{index}" for index in range(len(self.config["inputs"]))]

    def model_text(self):
        setup = ["super().__init__()"] + self.setup
        forward = self.forward + [f"loss = {' + '.join(self.losses)}"]
        forward.append(f"return {', '.join([self.mark] + self.results)},")
        return (
            "class Model(nn.Module):\n    def __init__(self):\n"
            + textwrap.indent("\n".join(setup), " " * 8)
            + f"\n\n    def forward(self, {', '.join(self.arguments)}):\n"
            + textwrap.indent("\n".join(forward), " " * 8)
            + "\n"
        )

    def definitions(self):
        """Functions and modules of the library that the statements name."""
        return _named_in("\n".join(self.setup + self.forward + self.losses + self.results))

    def text(self):
        return "\n\n".join([HEADER, *self.definitions(), self.model_text()])

    @functools.cached_property
    def model_class(self):
        namespace = {"__name__": f"fuzz_{self.seed}"}
        exec(compile(self.text(), f"<module {self.seed}>", "exec"), namespace)
        return namespace["Model"]

    @functools.cached_property
    def eager(self):
        """What training in eager PyTorch leaves behind."""
        return training.train_eager(self.model_class, self.config)

    def script(self, comment):
        """A file that reproduces what the program does, without this folder."""
        lines = (_FOLDER / "training.py").read_text().splitlines()
        comparison = "\n".join(line for line in lines if line not in HEADER.splitlines())
        title = f'"""Module {self.seed} of tests/fuzz.\n\n{comment}\n"""\n'
        config = "CONFIG = {\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in self.config.items()) + "}\n"
        return "\n\n".join([title + HEADER, *self.definitions(), self.model_text(), config,
                            "# How the two runs are made and compared: tests/fuzz/training.py\n" + comparison,
                            'if __name__ == "__main__":\n    raise SystemExit(0 if compare(Model, CONFIG) else 1)\n'])
