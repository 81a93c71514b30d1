"""What autograd is not to see: no_grad regions, .data, detach(), buffers, attributes."""

import textwrap

from ..draft import Rejected
from .inplace import CHANGES, change_of, target
from .views import view_of


def _unseen(draft, *statements):
    """The statements under no_grad, in one of the ways to say so."""
    opening = draft.random.choice(("torch.no_grad()", "torch.no_grad()", "torch.set_grad_enabled(False)"))
    return f"with {opening}:\n" + textwrap.indent("\n".join(statements), "    ")


def no_grad_value(draft):
    a = draft.operand()
    b = draft.fitted(draft.operand(), draft.value(a).shape)
    draft.add(_unseen(draft, f"{draft.new_name()} = " + draft.random.choice((
        f"torch.tanh({a}) + {b}", f"{a} * {b} * 0.5", f"{a}.mean()", f"{a}.clone()", f"{a}.abs().amax() + 0.5"))))


def no_grad_change(draft):
    name = target(draft)
    expression = name if draft.random.random() < 0.5 else view_of(draft, name, writable=True)
    draft.add(_unseen(draft, change_of(draft, expression)), changes=True)


PARAMETER_CHANGES = (
    "{p}.clamp_(-0.5, 0.5)", "{p}.mul_(0.99)", "{p}.mul_(0.9).add_(0.01)", "{p}.div_(0.8 + {p}.norm())",
    "{p}.copy_({p} / (0.5 + {p}.abs().amax()))", "{p}.sub_(0.05 * {p}.sign())", "{p} -= 0.02 * {p}", "{p}.fill_(0.3)",
    "{p}.zero_()", "{p}.relu_()",
)
PARAMETER_PARTS = ("{v}.zero_()", "{v}.mul_(0.9)", "{v}.clamp_(-0.3, 0.3)", "{v}.fill_(0.2)", "{v}.add_(0.02)",
                   "{v}.copy_({v} * 0.5)")


def _parameter_change(draft, parameter, access=""):
    random = draft.random
    if draft.value(parameter).dim() and random.random() < 0.4:
        return random.choice(PARAMETER_PARTS).replace("{v}", view_of(draft, parameter + access, writable=True))
    if random.random() < 0.2:
        source = draft.fitted(draft.pick(draft.floats()), draft.value(parameter).shape)
        return f"{parameter}{access}.add_({source}.detach(), alpha=0.05)"
    template = random.choice([t for t in PARAMETER_CHANGES if not access or "-=" not in t])
    return template.replace("{p}", parameter + access)


def parameter_change(draft):
    """Before, between and after uses: eager PyTorch says which of them are allowed."""
    parameter = draft.random.choice(draft.parameters(False))
    access = draft.random.choice(("", "", ".data", ".detach()"))
    statement = _parameter_change(draft, parameter, access)
    draft.add(statement if access else _unseen(draft, statement), changes=True)


def data_change(draft):
    """An activation written through .data or .detach()."""
    name = target(draft)
    access = draft.random.choice((".data", ".detach()"))
    expression = name + access
    if draft.random.random() < 0.4:
        expression = view_of(draft, expression, writable=True)
    statement = change_of(draft, expression, CHANGES if draft.random.random() < 0.7 else None)
    # A source with a gradient would make the detached tensor part of the graph.
    draft.add(_unseen(draft, statement), changes=True)


def data_replaced(draft):
    parameter = draft.random.choice(draft.parameters(False))
    draft.add(f"{parameter}.data = " + draft.random.choice((
        f"{parameter}.data * 0.9", f"{parameter}.data.clamp(-0.4, 0.4)", f"torch.tanh({parameter}.data)",
        f"{parameter}.detach() / (0.5 + {parameter}.detach().norm())")), changes=True)


def buffer_change(draft):
    if not draft.buffers():
        raise Rejected("no buffers")
    buffer, random = draft.random.choice(draft.buffers()), draft.random
    shape = draft.value(buffer).shape
    source = draft.fitted(draft.pick(draft.floats()), shape)
    options = [
        _unseen(draft, f"{buffer}.mul_(0.9).add_({source}, alpha=0.1)"),
        _unseen(draft, f"{buffer}.lerp_({source} + torch.zeros({tuple(shape)}), 0.1)"),
        f"{buffer}.copy_(0.9 * {buffer} + 0.1 * {source}.detach())",
        f"{buffer} += 0.1 * {source}.detach().tanh()",
        f"{buffer}.add_({source}.detach() * 0.1)",
        f"{buffer}.mul_(0.5)",
        f"{buffer}.data.copy_({source}.data)",
        f"{buffer}.clamp_(-1.0, 1.0)",
    ]
    if len(shape):
        options += [f"{buffer}[{random.randrange(shape[0])}] = {source}.detach().mean()",
                    f"{view_of(draft, buffer, writable=True)}.mul_(0.8)",
                    f"{buffer}[0] += 0.1", f"{buffer}.copy_({buffer}.roll(1, 0))"]
    draft.add(random.choice(options), changes=True)


def buffer_read(draft):
    if not draft.buffers():
        raise Rejected("no buffers")
    a = draft.pick(draft.floats())
    buffer = draft.fitted(draft.random.choice(draft.buffers()), draft.value(a).shape)
    draft.add(f"{draft.new_name()} = {a} " + draft.random.choice(("+", "-", "*")) + f" {buffer}"
              + draft.random.choice((".clone()", ".clone()", "")))


def cached(draft):
    a, result = draft.pick(draft.floats()), draft.new_name()
    draft.add(draft.random.choice((
        f"self.cache = {a}.detach()\n{result} = {a} * self.cache.mean()",
        f"self.cache = {a}\n{result} = self.cache + {draft.number()}",
        f"self.history = [{a}.detach(), {a}]\n{result} = self.history[0] * 0.3 + self.history[1]",
        f"self.cache = {{'last': {a} * 0.5}}\n{result} = self.cache['last'].tanh()",
    )))
