"""ipu_param of an optimiser's state: the numbers that are sent to the device, one for each parameter and attribute.

Only attributes that may change are sent. A parameter's attributes are a dictionary as in a parameter group; here they
become entries "learningRate___specific___fc.weight", and entries become attributes.
"""

import torch

LOSS_SCALING = "lossScaling_FLOAT"
_SEPARATOR = "___specific___"

# Entry of a parameter, the attribute it is made of, and its place in that attribute if that is a pair.
_PLAIN = {
    "adam": (("learningRate", "lr", None), ("weightDecay", "weight_decay", None), ("beta1", "betas", 0),
             ("beta2", "betas", 1), ("eps", "eps", None)),
    "rmsprop": (("learningRate", "lr", None), ("weightDecay", "weight_decay", None), ("momentum", "momentum", None),
                ("alpha", "alpha", None), ("eps", "eps", None)),
}
_PLAIN["adamw"] = _PLAIN["adam"]
_PLAIN["lamb"] = (*_PLAIN["adam"], ("maxWeightNorm", "max_weight_norm", None))


def _sgd_values(a, loss_scaling):
    scale = a["lr"] * (1 - a["dampening"])
    return {
        "scaledLearningRate0": (scale / loss_scaling, "lr"),
        "weightDecayScaleFactor0": (1 - scale * a["weight_decay"], "weight_decay"),
        "momentum0": (a["momentum"], "momentum"),
        "dampening0": (a["dampening"], "dampening"),
    }


def _plain_values(kind, a):
    values = {}
    for entry, attribute, place in _PLAIN[kind]:
        value = a[attribute] if place is None else a[attribute][place]
        values[entry] = (65500.0 if value is None else value, attribute)
    return values


def _values(lowered, attributes, loss_scaling):
    if lowered.kind == "sgd":
        values = _sgd_values(attributes, loss_scaling)
    else:
        values = _plain_values(lowered.kind, attributes)
    return {entry: value for entry, (value, source) in values.items() if not lowered.constant[source]}


def entries(lowered, by_parameter, loss_scaling):
    """ipu_param for these attributes of each parameter."""
    values = {}
    if not lowered.constant["loss_scaling"]:
        values[LOSS_SCALING] = loss_scaling
    for name, attributes in by_parameter.items():
        for entry, value in _values(lowered, attributes, loss_scaling).items():
            values[f"{entry}{_SEPARATOR}{name}"] = value
    return {key: torch.tensor(value, dtype=torch.float32) for key, value in values.items()}


def _number(loaded, entry, name):
    value = loaded.get(f"{entry}{_SEPARATOR}{name}")
    return None if value is None else float(value)


def _read_sgd(loaded, name, attributes, loss_scaling):
    found = dict(attributes)
    for entry, attribute in (("momentum0", "momentum"), ("dampening0", "dampening")):
        value = _number(loaded, entry, name)
        if value is not None:
            found[attribute] = value
    taken = 1 - found["dampening"]
    scaled_lr = _number(loaded, "scaledLearningRate0", name)
    if scaled_lr is not None and taken != 0:
        found["lr"] = scaled_lr * loss_scaling / taken
    kept = _number(loaded, "weightDecayScaleFactor0", name)
    if kept is not None and found["lr"] * taken != 0:
        found["weight_decay"] = (1 - kept) / (found["lr"] * taken)
    return found


def _read_plain(kind, loaded, name, attributes):
    found = dict(attributes)
    for entry, attribute, place in _PLAIN[kind]:
        value = _number(loaded, entry, name)
        if value is None:
            continue
        if place is None:
            found[attribute] = value
        else:
            pair = list(found[attribute])
            pair[place] = value
            found[attribute] = tuple(pair)
    return found


def read(lowered, loaded, name, attributes, loss_scaling):
    """The attributes of one parameter that give the loaded entries; where there is none they stay as they are.

    lowered: the optimiser as it was loaded. Where its groups give the very entries, its numbers are taken: they have
    more digits.
    """
    own = lowered.by_parameter().get(name)
    if own is not None:
        expected = {f"{entry}{_SEPARATOR}{name}": value for entry, value in _values(lowered, own, loss_scaling).items()}
        as_sent = {key: float(torch.tensor(value, dtype=torch.float32)) for key, value in expected.items()}
        if expected and all(key in loaded and float(loaded[key]) == value for key, value in as_sent.items()):
            sources = {key for key in own if not lowered.constant[key]}
            return {key: own[key] if key in sources else value for key, value in attributes.items()}
    if lowered.kind == "sgd":
        return _read_sgd(loaded, name, attributes, loss_scaling)
    return _read_plain(lowered.kind, loaded, name, attributes)
