"""The operators torch tests itself with, and the samples of their arguments that are checked."""

import dataclasses
import functools
import sys
import types
import unittest
import warnings

import torch
from torch.utils import _pytree


def _torch_database():
    """torch.testing wants `expecttest` for tests of its own, which Debian does not have; the database does not use it."""
    try:
        import expecttest  # pylint: disable=unused-import,import-outside-toplevel
    except ImportError:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    from torch.testing._internal.common_methods_invocations import op_db  # pylint: disable=import-outside-toplevel

    return op_db


# In the order of importance: the first that an operator takes decides what is said of it.
MAIN_TYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
FURTHER_TYPES = (torch.float16, torch.int64, torch.bool)
# Of equal elements torch says any: their positions cannot be compared.
ORDERINGS = ("argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk")


@dataclasses.dataclass
class Operator:
    info: object  # torch's OpInfo

    @property
    def name(self):
        return self.info.name

    @property
    def key(self):
        """One name may have several entries, told apart by their variant."""
        return f"{self.info.name}.{self.info.variant_test_name}" if self.info.variant_test_name else self.info.name

    def function(self, *args, **kwargs):
        """The operator by its name in torch where it has one, looked up when it is called, as programs do."""
        named = torch
        for part in self.name.split("."):
            named = getattr(named, part, None)
        return (self.info.get_op() if named is None or self._differs else named)(*args, **kwargs)

    @functools.cached_property
    def _differs(self):
        """Whether the entry is about something else than the function of its name."""
        return functools.reduce(lambda owner, part: getattr(owner, part, None), self.name.split("."), torch) \
            is not self.info.get_op()

    def types(self):
        """The element types to check it with. Half also where torch computes it on other devices only."""
        own = self.info.supported_dtypes("cpu")
        elsewhere = self.info.supported_dtypes("cuda")
        main = next((dtype for dtype in MAIN_TYPES if dtype in own), None)
        if main is None or main.is_complex:
            return [] if main is None else [main]
        wanted = (main, *(dtype for dtype in FURTHER_TYPES if dtype != main))
        return [dtype for dtype in wanted if not (dtype == torch.bool and self.name in ORDERINGS)
                if dtype in own or (dtype == torch.float16 and main.is_floating_point and dtype in elsewhere)]

    def samples(self, dtype, count):
        """At most `count` of torch's samples, spread over all of them: the unusual arguments come last. 0: all."""
        torch.manual_seed(0)
        drawn = torch.float32 if dtype == torch.float16 else dtype  # torch makes some samples with ops it lacks in half
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = [Sample.of(sample, dtype) for sample in self.info.sample_inputs("cpu", drawn, requires_grad=False)]
        made = [sample for sample in made if sample.has_elements()]
        if self.name in ORDERINGS and dtype != torch.float32:
            made = [sample.without_ties() for sample in made if sample.tensors[0].numel() <= 2000]
        if self.name == "histogram":
            made = [sample.with_ascending_edges() for sample in made]
        if not 0 < count < len(made):
            return made
        return [made[round(i * (len(made) - 1) / max(count - 1, 1))] for i in range(count)]


@dataclasses.dataclass
class Sample:
    """The arguments of one call, taken apart: `tensors` are its operands, `call` puts others in their place."""

    tensors: list
    leaves: list
    places: list  # of the tensors among the leaves
    structure: object
    process: object  # makes a result unique (signs of eigenvectors), for its gradient
    broadcasts: bool  # the first operand is smaller than the result: it cannot be written in place
    takes_device: bool  # makes a tensor: in a model, one on the device

    @staticmethod
    def of(sample, dtype):
        keywords = {name: value for name, value in sample.kwargs.items() if name != "device"}
        leaves, structure = _pytree.tree_flatten((sample.input, tuple(sample.args), keywords))
        places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[index].detach() for index in places]
        for place in places:
            leaves[place] = leaves[place].to(dtype) if dtype == torch.float16 and leaves[place].is_floating_point() \
                else leaves[place]
        if dtype == torch.float16:
            tensors = [tensor.half() if tensor.is_floating_point() else tensor for tensor in tensors]
        return Sample(tensors, leaves, places, structure, sample.output_process_fn_grad, sample.broadcasts_input,
                      "device" in sample.kwargs)

    def call(self, function, tensors, device=None):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        first, arguments, keywords = _pytree.tree_unflatten(leaves, self.structure)
        if self.takes_device and device is not None:
            keywords["device"] = device
        return function(first, *arguments, **keywords)

    def has_elements(self):
        """Tensors without elements cannot be part of a model, whatever the operator."""
        return all(tensor.numel() > 0 for tensor in self.tensors)

    def without_ties(self):
        first = self.tensors[0]
        ranks = first.flatten().argsort(stable=True).argsort().reshape(first.shape)
        distinct = (ranks * 0.25 if first.is_floating_point() else ranks).to(first.dtype)
        return dataclasses.replace(self, tensors=[distinct, *self.tensors[1:]])

    def with_ascending_edges(self):
        """Torch's samples have edges of bins in any order, which its own documentation rules out."""
        _, arguments, _ = _pytree.tree_unflatten(self.leaves, self.structure)
        edges = [tensor.sort().values if any(tensor is argument for argument in arguments) else tensor
                 for tensor in (self.leaves[place] for place in self.places)]
        return dataclasses.replace(self, tensors=edges)

    def first_is_tensor(self):
        return isinstance(_pytree.tree_unflatten(self.leaves, self.structure)[0], torch.Tensor)

    def describe(self):
        """As short as a person would write it."""
        def shown(value):
            if not isinstance(value, torch.Tensor):
                return repr(value)
            return f"{str(value.dtype).replace('torch.', '')}{list(value.shape)}"

        first, arguments, keywords = _pytree.tree_unflatten(
            [shown(leaf) for leaf in self.leaves], self.structure)
        parts = [first, *arguments, *(f"{name}={value}" for name, value in keywords.items())]
        return ", ".join(str(part).replace("'", "") for part in parts)


def operators(patterns=()):
    """All entries, or those whose name is, or begins with, one of the given names."""
    found = [Operator(info) for info in _torch_database()]
    if not patterns:
        return found
    wanted = [operator for operator in found
              if any(operator.name == pattern or operator.key == pattern or
                     (pattern.endswith("*") and operator.key.startswith(pattern[:-1])) for pattern in patterns)]
    unknown = [pattern for pattern in patterns
               if not any(o.name == pattern or o.key == pattern or
                          (pattern.endswith("*") and o.key.startswith(pattern[:-1])) for o in wanted)]
    if unknown:
        raise SystemExit(f"./dev ops: torch's database has no operator called {', '.join(unknown)}; "
                         "names are those of torch (add, nn.functional.relu), and \"linalg.*\" means all that begin so")
    return wanted
