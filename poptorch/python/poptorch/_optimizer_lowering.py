"""From an optimiser object to what the compiler and the device need: structure, settings, constness."""

import math

import torch

from . import optim
from ._logging import logger
from ._optimizer_attributes import is_constant

_KINDS = (
    ("lamb", optim.LAMB),
    ("adamw", torch.optim.AdamW),
    ("adam", torch.optim.Adam),
    ("sgd", torch.optim.SGD),
    ("rmsprop", torch.optim.RMSprop),
)
_KNOWN_TYPES = (
    optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB,
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
)
_GROUP_ATTRIBUTES = {
    "sgd": ("lr", "weight_decay", "momentum", "dampening", "nesterov"),
    "adam": ("lr", "weight_decay", "betas", "eps"),
    "adamw": ("lr", "weight_decay", "betas", "eps"),
    "rmsprop": ("lr", "weight_decay", "momentum", "alpha", "eps", "centered"),
    "lamb": ("lr", "weight_decay", "betas", "eps", "max_weight_norm"),
}
_HALF_STATE = ("accum_type", "velocity_accum_type", "first_order_momentum_accum_type",
               "second_order_momentum_accum_type")
# Group keys and attributes of torch's own that never reach a device.
_HOST_ONLY = {
    "params", "foreach", "maximize", "capturable", "differentiable", "fused", "amsgrad", "defaults", "state",
    "param_groups", "variable_attrs", "ipu_state", "ipu_param", "has_state_to_upload", "_state_reader", "step",
    "decoupled_weight_decay",
}


def kind_of(optimizer):
    for kind, cls in _KINDS:
        if isinstance(optimizer, cls):
            if type(optimizer) not in _KNOWN_TYPES:
                logger.warning(
                    "%s is trained as its base class %s: the Python code of its step() does not run on the device",
                    type(optimizer).__name__, cls.__name__,
                )
            return kind
    raise AssertionError(
        f"Unsupported optimiser {type(optimizer).__name__}; supported are SGD, Adam, AdamW and RMSprop of torch.optim, "
        "and those and LAMB of poptorch.optim"
    )


def _number(name, value):
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if not isinstance(value, (int, float)):
        raise AssertionError(f"Optimiser attribute {name} must be a number, not {value!r}")
    return value


def _attribute(name, value):
    if name == "betas":
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise AssertionError(f"betas must be two numbers, not {value!r}")
        return tuple(_number("betas", beta) for beta in value)
    return _number(name, value)


class LoweredOptimizer:
    """The values of an optimiser at one moment. Two of them tell whether a change is allowed and what to send."""

    def __init__(self, optimizer, names_by_id):
        """names_by_id: id of each trainable parameter of the model -> its name in the graph."""
        self.kind = kind_of(optimizer)
        self.loss_scaling = float(_number("loss_scaling", getattr(optimizer, "loss_scaling", 1.0)))
        self.max_grad_norm = float(getattr(optimizer, "max_grad_norm", math.inf))
        self.bias_correction = bool(getattr(optimizer, "bias_correction", True))
        self.tf_variant = bool(getattr(optimizer, "use_tf_variant", False))
        self.needs_running_mean = needs_running_mean(optimizer)
        self.groups = []      # attributes of each group
        self.parameters = []  # names of each group
        self.constant = {"loss_scaling": is_constant(optimizer, "loss_scaling", self.loss_scaling)}
        for group in optimizer.param_groups:
            if group.get("amsgrad"):
                raise ValueError("amsgrad=True is not supported; use Adam or AdamW without it")
            attributes = {name: _attribute(name, group[name]) for name in _GROUP_ATTRIBUTES[self.kind]}
            self.groups.append(attributes)
            self.parameters.append([names_by_id[id(p)] for p in group["params"] if id(p) in names_by_id])
            for name, value in attributes.items():
                constant = is_constant(optimizer, name, value)
                self.constant[name] = self.constant.get(name, True) and constant
        self.centered = bool(self.groups[0].get("centered", False))
        if not all(bool(g.get("centered", False)) == self.centered for g in self.groups):
            raise AssertionError("centered must be the same in all parameter groups of RMSprop")

    # -- what the compiler needs ----------------------------------------------------------------------------------
    def _keeps_velocity(self, attributes):
        return bool(attributes.get("momentum", 0) != 0 or not self.constant.get("momentum", True))

    def settings(self, attributes):
        """Numbers of a group or a parameter, in the order of the compiler's Setting enumeration."""
        a = attributes
        first, second = a.get("momentum", 0.0), a.get("dampening", a.get("alpha", 0.0))
        if "betas" in a:
            first, second = a["betas"]
        if self.kind == "sgd" and first == 0:
            second = 0.0  # without momentum torch ignores dampening
        return [float(v) for v in (
            a["lr"], a["weight_decay"], first, second, a.get("eps", 0.0), self.loss_scaling,
            a.get("max_weight_norm") or 65500.0,
        )]

    def specification(self):
        return {
            "kind": self.kind,
            "bias_correction": self.bias_correction,
            "centered": self.centered,
            "tf_variant": self.tf_variant,
            "max_grad_norm": self.max_grad_norm,
            "scales_loss": self.loss_scaling != 1 or not self.constant["loss_scaling"],
            "groups": [
                {
                    "parameters": names,
                    "momentum": self._keeps_velocity(attributes),
                    "nesterov": bool(attributes.get("nesterov", False)),
                    "settings": self.settings(attributes),
                }
                for names, attributes in zip(self.parameters, self.groups)
            ],
        }

    def by_parameter(self):
        """The attributes of each parameter of the model, by its name."""
        return {name: attributes for names, attributes in zip(self.parameters, self.groups) for name in names}

    # -- changes --------------------------------------------------------------------------------------------------
    def _structure(self):
        return {
            "the kind of optimiser": self.kind,
            "the parameters of the groups": self.parameters,
            "bias_correction": self.bias_correction,
            "centered": self.centered,
            "use_tf_variant": self.tf_variant,
            "max_grad_norm": self.max_grad_norm,
            "nesterov": [bool(a.get("nesterov", False)) for a in self.groups],
            "momentum (between zero and not zero)": [self._keeps_velocity(a) for a in self.groups],
        }

    def forbidden_change(self, new):
        """What differs in a way the compiled program cannot follow, as a text; None if nothing does."""
        for name, value in self._structure().items():
            if new._structure()[name] != value:
                return f"{name} changed from {value} to {new._structure()[name]}, which is fixed at compilation"
        changed = {"loss_scaling": (self.loss_scaling, new.loss_scaling)}
        for old_group, new_group in zip(self.groups, new.groups):
            for name, value in old_group.items():
                if new_group[name] != value:
                    changed[name] = (value, new_group[name])
        for name, (before, after) in changed.items():
            if before != after and self.constant[name]:
                return (
                    f"{name} is constant and changed from {before} to {after}; call "
                    f'optimizer.variable_attrs.markAsVariable("{name}") before the model is compiled'
                )
        return None


def needs_running_mean(optimizer):
    """Half-precision accumulators would overflow if they were only divided at the end."""
    if getattr(optimizer, "use_combined_accum", False):
        return False
    return getattr(optimizer, "accum_type", torch.float32) is torch.float16


def warn_about_half_state(optimizer):
    names = [name for name in _HALF_STATE if getattr(optimizer, name, None) is torch.float16]
    if names:
        logger.warning("%s: float16 was asked for; optimiser state is kept in float32", ", ".join(names))


def warn_about_maximize(optimizer):
    if any(group.get("maximize") for group in optimizer.param_groups):
        logger.warning("maximize=True is ignored: models are trained to minimise their loss; negate the loss instead")


def unexpected_attributes(optimizer, kind):
    """Names of attributes and group entries that play no role on the device."""
    known = set(_GROUP_ATTRIBUTES[kind]) | _HOST_ONLY | set(_HALF_STATE) | {
        "loss_scaling", "max_grad_norm", "bias_correction", "use_tf_variant", "use_combined_accum", "velocity_scaling",
    }
    names = {name for name in vars(optimizer) if not name.startswith("_")}
    names.update(name for group in optimizer.param_groups for name in group)
    return names - known
