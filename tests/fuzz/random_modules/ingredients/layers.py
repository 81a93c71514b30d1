"""Calls of sub-modules."""

from ..draft import Rejected


def _call(draft, layer):
    """An expression that calls layer, on something it can take."""
    module = draft.value(f"self.{layer}")
    wanted = draft.config["width"]
    kind = type(module).__name__
    candidates = [name for name in draft.floats() if draft.value(name).dim() and draft.value(name).numel() <= 120]
    if kind == "Embedding":
        labels = [name for name in draft.variables() if name.startswith("x") and name not in draft.floats()]
        if not labels:
            raise Rejected("no labels")
        return f"self.{layer}({labels[0]})"
    if kind == "Remembers":
        return f"self.{layer}({draft.pick(candidates)})"
    if kind == "Conv1d":
        fitting = [name for name in candidates if draft.value(name).dim() == 3
                   and draft.value(name).shape[1] == module.in_channels]
        return f"self.{layer}({draft.pick(fitting)})"
    dims = (2,) if kind == "BatchNorm1d" else (1, 2, 3)
    fitting = [name for name in candidates if draft.value(name).shape[-1] == wanted and draft.value(name).dim() in dims]
    if fitting and draft.random.random() < 0.8:
        return f"self.{layer}({draft.pick(fitting)})"
    name = draft.pick(candidates)
    rows = draft.value(name).numel() // wanted
    if not rows:
        raise Rejected("too narrow")
    return f"self.{layer}({name}.reshape(-1)[:{rows * wanted}].view({rows}, {wanted}))"


def called(draft):
    draft.add(f"{draft.new_name()} = {_call(draft, draft.pick(draft.modules()))}", changes=True)


def called_twice(draft):
    layer = draft.pick(draft.modules())
    first, second = draft.new_name(), draft.new_name()
    draft.add(f"{first} = {_call(draft, layer)}\n{second} = {_call(draft, layer)}", changes=True)
