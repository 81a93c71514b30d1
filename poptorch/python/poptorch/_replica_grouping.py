"""Parameters that differ between groups of replicas: executor.<parameter>.replicaGrouping(...)."""

import copy

import torch

from . import poptorch_core
from .enums import CommGroupType, VariableRetrievalMode


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
        poptorch_core.check_may_group(self._name, self._parameter, self._executor.isCompiled())
        groupings = self._executor._groupings
        if comm_group_type == CommGroupType.All:
            groupings.pop(self._name, None)
        else:
            returns_all = variable_retrieval_mode == VariableRetrievalMode.AllReplicas
            groupings[self._name] = (comm_group_type.value, shards, returns_all)

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
