"""Parameters that differ between groups of replicas: executor.<parameter>.replicaGrouping(...)."""

import copy

import torch

from .enums import CommGroupType, VariableRetrievalMode
from .errors import createPoptorchError


class Grouping:
    """Which replicas share a value of a parameter."""

    def __init__(self, kind, size, returns_all):
        self._kind = kind
        self._size = size
        self._returns_all = returns_all

    def check(self, name, tensor, replicas):
        """The host's parameter must hold as many values as there are groups, or replicas."""
        if self._kind != CommGroupType.NoGrouping and (self._size < 1 or replicas % self._size != 0):
            raise createPoptorchError(
                f'[replicaGrouping] parameter "{name}" has {self._size} replicas in each group, which does not divide '
                f"the replication factor {replicas}."
            )
        expected = replicas
        if self._kind != CommGroupType.NoGrouping and not self._returns_all:
            expected = replicas // self._size
        if tensor.shape[0] != expected:
            what = "replicas" if self._returns_all else "groups of replicas"
            raise createPoptorchError(
                f'[replicaGrouping] parameter "{name}" has shape {list(tensor.shape)}; there are {expected} {what}, so '
                f"its first dimension must be {expected}: one value for each of them."
            )

    def for_core(self):
        return self._kind.value, self._size, self._returns_all


class ExecutorParameter(torch.nn.Parameter):
    """What executor.<parameter> returns: the parameter, and a way to give groups of replicas their own values.

    It shows the same memory as the parameter, to which assignments (.data, .requires_grad) go.
    """

    def __new__(cls, parameter, name, executor):
        made = torch.Tensor._make_subclass(cls, parameter.detach(), parameter.requires_grad)
        made.__dict__.update(_parameter=parameter, _name=name, _executor=executor)
        return made

    def __init__(self, *args):
        super().__init__()

    def replicaGrouping(self, comm_group_type, shards, variable_retrieval_mode):
        """Before the model is compiled. shards: replicas that share a value. The parameter has the values of all groups
        (OnePerGroup) or replicas (AllReplicas) along an additional first dimension, which forward does not see."""
        if not isinstance(comm_group_type, CommGroupType):
            raise AssertionError(f"Expected a CommGroupType, not {comm_group_type!r}")
        if not isinstance(shards, int):
            raise AssertionError(f"shards must be an int, not {shards!r}")
        if not isinstance(variable_retrieval_mode, VariableRetrievalMode):
            raise AssertionError(f"Expected a VariableRetrievalMode, not {variable_retrieval_mode!r}")
        if self._executor.isCompiled():
            raise createPoptorchError(
                f'[replicaGrouping] parameter "{self._name}": the model is compiled already; call replicaGrouping '
                "before its first call, or destroy() first."
            )
        if self._parameter.dim() == 0:
            raise createPoptorchError(
                f'[replicaGrouping] parameter "{self._name}" is a single number; it needs a first dimension that holds '
                "one value for each group of replicas."
            )
        groupings = self._executor._groupings
        if comm_group_type == CommGroupType.All:
            groupings.pop(self._name, None)
        else:
            returns_all = variable_retrieval_mode == VariableRetrievalMode.AllReplicas
            groupings[self._name] = Grouping(comm_group_type, shards, returns_all)

    def __setattr__(self, name, value):
        setattr(self._parameter, name, value)

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._parameter, memo)

    def __reduce_ex__(self, protocol):
        return self._parameter.__reduce_ex__(protocol)


class single_values:
    """Context in which a module has one value of each grouped parameter: what forward sees in every replica.

    values: by name of the parameter.
    """

    def __init__(self, module, groupings):
        self._parameters = module._parameters
        self._whole = {name: module._parameters[name] for name in groupings}
        self.values = {
            name: torch.nn.Parameter(whole.detach()[0].clone(), whole.requires_grad)
            for name, whole in self._whole.items()
        }

    def __enter__(self):
        if self.values:  # the parameters of a scripted module cannot be replaced, nor grouped
            self._parameters.update(self.values)
        return self

    def __exit__(self, *exception):
        if self.values:
            self._parameters.update(self._whole)
