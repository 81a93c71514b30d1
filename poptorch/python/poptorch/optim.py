"""Optimisers for training models: PyTorch's, with the settings a device needs. What those mean is decided in C++."""

import math

import torch

from . import poptorch_core
from ._logging import logger
from .poptorch_core import VariableAttributes

__all__ = ["SGD", "Adam", "AdamW", "RMSprop", "LAMB", "Optimizer", "VariableAttributes"]


def _given(**arguments):
    """The arguments that were passed: None stands for "not given"."""
    return {name: value for name, value in arguments.items() if value is not None}


def _types(**types):
    """Types of state: float32 unless given."""
    types = {name: torch.float32 if dtype is None else dtype for name, dtype in types.items()}
    for name, dtype in types.items():
        poptorch_core.check_accum_type(name, dtype)
    return types


def _copied(state):
    """The caller may change theirs."""
    return None if state is None else {name: torch.as_tensor(value).clone() for name, value in state.items()}


class Optimizer:
    """What the optimisers of poptorch add to those of torch: constness of attributes and the state on the device."""

    _kind = None  # the name of the rule, for C++

    def _init_device_side(self, given, loss_scaling, **values):
        """given: attributes passed to the constructor, which are variable. values: attributes of ours."""
        self.loss_scaling = 1.0 if loss_scaling is None else loss_scaling
        for name, value in values.items():
            setattr(self, name, value)
        variable = [*given, *_given(loss_scaling=loss_scaling)]
        self.variable_attrs = VariableAttributes(variable, [*self.defaults, "loss_scaling"])
        self._device_state = poptorch_core.OptimizerState()  # shared with the executor that trains with this

    # -- state ----------------------------------------------------------------------------------------------------
    @property
    def ipu_state(self):
        """State of the device that the optimiser has as a whole, and accumulators, by name."""
        return self._device_state.ipu_state

    @property
    def ipu_param(self):
        """State of the device for each parameter, by name."""
        return self._device_state.ipu_param

    @property
    def has_state_to_upload(self):
        """Whether state was loaded that the next call takes to the device."""
        return self._device_state.has_state_to_upload

    def state_dict(self):
        """torch's, with the state of the device in ipu_state and ipu_param."""
        ipu_state, ipu_param = self._device_state.read()
        return {"ipu_state": ipu_state, "ipu_param": ipu_param, **super().state_dict()}

    def load_state_dict(self, state_dict):
        """Takes what state_dict returned; the next call of the model takes it to the device."""
        if not state_dict:
            raise RuntimeError("Cannot load an empty optimiser state")
        if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
            raise RuntimeError(
                "This optimiser state has no entries ipu_state and ipu_param: it was not saved by a poptorch optimiser"
            )
        super().load_state_dict({key: value for key, value in state_dict.items() if not key.startswith("ipu_")})
        ipu_state, ipu_param = _copied(state_dict["ipu_state"]), _copied(state_dict["ipu_param"])
        self._device_state.load(self._kind, self.param_groups, ipu_state, ipu_param)

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("step", None)  # learning-rate schedulers put a wrapper there, which cannot be pickled
        state["_device_state"] = self._device_state.copied()  # of a copy: carries the state, but is not connected
        return state


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent with momentum."""

    _kind = "sgd"

    def __init__(
        self, params, lr, momentum=None, dampening=None, weight_decay=None, nesterov=None, maximize=None,
        foreach=None, differentiable=None, loss_scaling=None, velocity_scaling=None, use_combined_accum=False,
        accum_type=None, velocity_accum_type=None, max_grad_norm=None,
    ):
        given = _given(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
            maximize=maximize, foreach=foreach, differentiable=differentiable,
        )
        super().__init__(params, **given)
        if use_combined_accum:
            given.update(_given(velocity_scaling=velocity_scaling))
            self.defaults["velocity_scaling"] = given.get("velocity_scaling", 1.0)
            for group in self.param_groups:
                group.setdefault("velocity_scaling", self.defaults["velocity_scaling"])
        elif velocity_scaling is not None:
            logger.warning("SGD ignores velocity_scaling: it only applies with use_combined_accum=True")
        self._init_device_side(
            given,
            loss_scaling,
            use_combined_accum=use_combined_accum,
            max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
            **_types(accum_type=accum_type, velocity_accum_type=velocity_accum_type),
        )


def _moment_types(accum_type, first, second):
    return _types(
        accum_type=accum_type, first_order_momentum_accum_type=first, second_order_momentum_accum_type=second
    )


def _step_on_host(optimizer, closure, ratio):
    """One step of a relative of Adam by the rule the device uses. ratio: of (parameter, update, group)."""
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None:
                update = _adam_update(optimizer.state[param], param, group, optimizer.bias_correction)
                param.sub_(group["lr"] * ratio(param, update, group) * update)
    return loss


def _adam_update(state, param, group, corrected):
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
    state["step"] += 1
    beta1, beta2 = group["betas"]
    state["exp_avg"].lerp_(param.grad, 1 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(param.grad, param.grad, value=1 - beta2)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    if corrected:
        mean = mean / (1 - beta1 ** state["step"])
        square = square / (1 - beta2 ** state["step"])
    return mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * param


class Adam(Optimizer, torch.optim.Adam):
    """Adam, with weight decay added to the gradient."""

    _kind = "adam"

    def __init__(
        self, params, lr=None, betas=None, eps=None, weight_decay=None, amsgrad=None, foreach=None, maximize=None,
        capturable=None, differentiable=None, fused=None, loss_scaling=None, accum_type=None,
        first_order_momentum_accum_type=None, second_order_momentum_accum_type=None, max_grad_norm=None,
    ):
        given = _given(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, foreach=foreach,
            maximize=maximize, capturable=capturable, differentiable=differentiable, fused=fused,
        )
        super().__init__(params, **given)
        self._init_device_side(
            given,
            loss_scaling,
            max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    _kind = "adamw"

    def __init__(
        self, params, lr=None, betas=None, eps=None, weight_decay=None, amsgrad=None, maximize=None, foreach=None,
        capturable=None, differentiable=None, fused=None, loss_scaling=None, bias_correction=True, accum_type=None,
        first_order_momentum_accum_type=None, second_order_momentum_accum_type=None, max_grad_norm=None,
    ):
        del differentiable, fused  # came to torch's AdamW after the oldest version we support
        given = _given(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
            foreach=foreach, capturable=capturable,
        )
        super().__init__(params, **given)
        self._init_device_side(
            given,
            loss_scaling,
            bias_correction=bool(bias_correction),
            max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )

    @torch.no_grad()
    def step(self, closure=None):
        """torch's step, which always corrects; without the correction, one by the rule the device uses."""
        if self.bias_correction:
            return super().step(closure)
        if any(group["amsgrad"] or group["maximize"] for group in self.param_groups):
            raise ValueError("amsgrad and maximize are not supported together with bias_correction=False")
        return _step_on_host(self, closure, lambda param, update, group: 1.0)


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop, also in TensorFlow's variant."""

    _kind = "rmsprop"

    def __init__(
        self, params, lr=None, alpha=None, eps=None, weight_decay=None, momentum=None, centered=None, foreach=None,
        maximize=None, differentiable=None, loss_scaling=None, accum_type=None, first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None, use_tf_variant=False,
    ):
        given = _given(
            lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered,
            foreach=foreach, maximize=maximize, differentiable=differentiable,
        )
        super().__init__(params, **given)
        self._init_device_side(
            given,
            loss_scaling,
            use_tf_variant=bool(use_tf_variant),
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )


class LAMB(Optimizer, torch.optim.Optimizer):
    """Layer-wise adaptive moments (You et al., 2020, "Large Batch Optimization for Deep Learning")."""

    _kind = "lamb"

    def __init__(
        self, params, lr=None, betas=None, eps=None, weight_decay=None, bias_correction=True, loss_scaling=None,
        max_weight_norm=None, accum_type=None, first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None,
    ):
        given = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, max_weight_norm=max_weight_norm)
        super().__init__(params, {**poptorch_core.optimizer_defaults(self._kind), **given})
        self._init_device_side(
            given,
            loss_scaling,
            bias_correction=bool(bias_correction),
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )

    @torch.no_grad()
    def step(self, closure=None):
        """One update on the host, by the rule the device uses."""
        return _step_on_host(self, closure, _lamb_ratio)


def _lamb_ratio(param, update, group):
    weight_norm = param.norm().clamp(max=group["max_weight_norm"])
    update_norm = update.norm()
    return weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
