"""Hooks on activations. Those of parameters and modules are registered in __init__ (`setup.py`)."""

from ..draft import Rejected

# Functions of the gradient alone.
HOOKS = ("lambda grad: grad * {n}", "lambda grad: grad.clamp(-0.02, 0.02)", "lambda grad: None", "lambda grad: -grad",
         "lambda grad: torch.where(grad > 0, grad, 0.1 * grad)", "lambda grad: grad / (1 + grad.norm())",
         "lambda grad: torch.zeros_like(grad)", "lambda grad: grad - grad.mean()", "lambda grad: grad.tanh()",
         "lambda grad: grad * (grad.abs() < 0.05)")


def hook(draft):
    return draft.random.choice(HOOKS).replace("{n}", draft.number(0.2, 2))


def on_activation(draft):
    # Not of parameters: a hook in forward would be one more in every step.
    names = [name for name in draft.floats() if draft.value(name).grad_fn is not None]
    if not names:
        raise Rejected("nothing with a gradient")
    name, random = draft.pick(names), draft.random
    if draft.value(name)._backward_hooks is not None and draft.value(name)._version:
        raise Rejected("torch 1.13 hangs a second hook on the value from before an in-place change, later ones do not")
    masks = [buffer for buffer in draft.buffers() if draft.value(buffer).shape == draft.value(name).shape]
    others = [other for other in draft.floats() if draft.value(other).shape == draft.value(name).shape]
    options = [f"{name}.register_hook({hook(draft)})"] * 4
    options.append(f"handle = {name}.register_hook({hook(draft)})\nhandle.remove()")
    options.append(f"{name}.register_hook({hook(draft)})\n{name}.register_hook({hook(draft)})")
    if masks:
        options += [f"{name}.register_hook(lambda grad, mask={random.choice(masks)}.clone(): grad * mask)"] * 3
    other = f"{random.choice(others)}.detach().clone()"
    options.append(f"{name}.register_hook(lambda grad, other={other}: grad * other.tanh())")
    draft.add(random.choice(options), changes=True)
    draft.hooked.setdefault(name, draft.value(name)._version)
