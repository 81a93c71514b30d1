"""Functions with a backward of their own."""

from ..draft import Rejected


def applied(draft):
    draft.random.choice((_one, _one, _one, _pair, _linear, _dirty, _largest, _several, _parts))(draft)


ONE = ("StraightThrough.apply({})", "ReverseGradient.apply({}, {n})", "ScaleGradient.apply({}, {n})", "square({})",
       "Square.apply({})", "ClampThrough.apply({}, -0.4, 0.4)", "Spread.apply({}, 2)", "Nested.apply({})",
       "Passing.apply({})", "WithNumber.apply({}, {n})[0]", "Outer.apply({})")


def _one(draft):
    a = draft.small(draft.operand())
    draft.add(f"{draft.new_name()} = " + draft.random.choice(ONE).replace("{n}", draft.number(0.2, 2)).replace("{}", a))


def _pair(draft):
    a = draft.small(draft.operand())
    b = draft.fitted(draft.operand(), draft.value(a).shape)
    if draft.value(b).shape != draft.value(a).shape:
        b = f"{b}.expand({tuple(draft.value(a).shape)})"
    if draft.random.random() < 0.3:
        draft.add(f"{draft.new_name()} = FrozenSecond.apply({a}, {b})")
    else:
        draft.add(f"{draft.new_name()}, {draft.new_name()} = SumAndDifference.apply({a}, {b})")


def _linear(draft):
    a = draft.small(draft.operand())
    value = draft.value(a)
    if value.dim() < 2:
        raise Rejected("too flat")
    weights = [name for name in draft.parameters(False) if draft.value(name).shape[1:] == value.shape[-1:]]
    if not weights:
        raise Rejected("no weight fits")
    weight = draft.random.choice(weights)
    rows = draft.value(weight).shape[0]
    biases = [f", {name}" for name in draft.parameters(False) if draft.value(name).shape == (rows,)] + ["", ", None"]
    draft.add(f"{draft.new_name()} = OwnLinear.apply({a}, {weight}{draft.random.choice(biases)}).tanh()")


def _dirty(draft):
    a = draft.pick([name for name in draft.floats() if not name.startswith("x")])
    draft.writable(a)
    draft.add(draft.random.choice((f"{draft.new_name()} = ReluInPlace.apply({a}.clone())",
                                   f"{draft.new_name()} = ReluInPlace.apply({a})", f"ReluInPlace.apply({a})")),
              changes=True)


def _largest(draft):
    a = draft.small(draft.operand())
    if not draft.value(a).dim():
        raise Rejected("a scalar")
    draft.add(f"{draft.new_name()}, {draft.new_name('k')} = LargestWithPlace.apply({a})")


def _several(draft):
    """Not all results are used by every program: their gradients are None then."""
    a = draft.small(draft.operand())
    draft.add(f"{draft.new_name()}, {draft.new_name()} = MaybeUnused.apply({a}, {draft.number(0.5, 2)})")


def _parts(draft):
    a, b = draft.small(draft.operand()), draft.small(draft.operand())
    draft.add(f"{draft.new_name()}, {draft.new_name()} = ListOfParts.apply({draft.number(0.5, 2)}, {a}, {b})")
