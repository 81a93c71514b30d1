"""Which attributes of an optimiser are baked into the program and which may change between calls."""

# Attributes of native torch optimisers are constant while they have these values, and variable otherwise.
TORCH_CONSTANT_DEFAULTS = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "eps": 1e-8,
    "loss_scaling": 1.0,
    "max_weight_norm": 65500.0,
}
TORCH_ALWAYS_CONSTANT = ("betas", "alpha", "nesterov", "centered", "velocity_scaling")


class VariableAttributes:
    """The attributes of an optimiser that may be changed after compilation, through setOptimizer."""

    def __init__(self, variable_attributes, allowed_attributes):
        self._variable_attributes = set(variable_attributes)
        self._allowed_attributes = set(allowed_attributes)

    def _check(self, attr):
        if attr not in self._allowed_attributes:
            raise AssertionError(
                f'Unknown optimiser attribute "{attr}"; expected one of {", ".join(sorted(self._allowed_attributes))}'
            )

    def isConstant(self, attr):
        return attr not in self._variable_attributes

    def markAsConstant(self, attr):
        self._check(attr)
        self._variable_attributes.discard(attr)

    def markAsVariable(self, attr):
        self._check(attr)
        self._variable_attributes.add(attr)


def is_constant(optimizer, attr, value):
    """Whether an attribute with this value is baked in when a model is compiled with this optimiser."""
    variable_attrs = getattr(optimizer, "variable_attrs", None)
    if isinstance(variable_attrs, VariableAttributes):
        return variable_attrs.isConstant(attr)
    if attr == "lr":
        return False
    if attr in TORCH_ALWAYS_CONSTANT:
        return True
    if attr == "weight_decay" and _is_adamw(optimizer):
        return value == 0.01
    return attr in TORCH_CONSTANT_DEFAULTS and value == TORCH_CONSTANT_DEFAULTS[attr]


def _is_adamw(optimizer):
    return any(base.__name__ == "AdamW" for base in type(optimizer).__mro__)
