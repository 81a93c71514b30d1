"""Optimisers for training models: PyTorch's, with the settings a device needs."""

import math

import torch

from ._logging import logger
from ._optimizer_attributes import VariableAttributes

__all__ = ["SGD", "Adam", "AdamW", "RMSprop", "LAMB", "Optimizer", "VariableAttributes"]

_FLOAT_TYPES = (torch.float16, torch.float32)


def _checked_type(name, dtype):
    if dtype is None:
        return torch.float32
    if dtype not in _FLOAT_TYPES:
        raise AssertionError(f"{name} must be torch.float16 or torch.float32, not {dtype}")
    return dtype


def _given(**arguments):
    """The arguments that were passed: None stands for "not given"."""
    return {name: value for name, value in arguments.items() if value is not None}


def _copied(state):
    """The caller may change theirs."""
    return None if state is None else {name: torch.as_tensor(value).clone() for name, value in state.items()}


class Optimizer:
    """What the optimisers of poptorch add to those of torch: constness of attributes and the state on the device."""

    def _init_device_side(self, given, **values):
        """given: names of attributes passed to the constructor, which are variable. values: attributes of ours."""
        for name, value in values.items():
            setattr(self, name, value)
        allowed = [*self.defaults, "loss_scaling"]
        self.variable_attrs = VariableAttributes([name for name in given if name in allowed], allowed)
        self.ipu_state = None
        self.ipu_param = None
        self.has_state_to_upload = False
        self._has_param_to_upload = False  # ipu_param was loaded: it overrides the parameter groups
        self._state_reader = None  # set by the executor that trains with this optimiser

    # -- state ----------------------------------------------------------------------------------------------------
    def _read_device_state(self):
        state = self._state_reader() if self._state_reader is not None else None
        if state is not None:
            self.ipu_state, self.ipu_param = state

    def _disconnect(self):
        """The executor is gone, or uses another optimiser: what was read last is kept."""
        self._state_reader = None

    def state_dict(self):
        self._read_device_state()
        torch_state = super().state_dict()
        return {"ipu_state": self.ipu_state, "ipu_param": self.ipu_param, **torch_state}

    def load_state_dict(self, state_dict):
        if not state_dict:
            raise RuntimeError("Cannot load an empty optimiser state")
        if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
            raise RuntimeError(
                "This optimiser state has no entries ipu_state and ipu_param: it was not saved by a poptorch optimiser"
            )
        super().load_state_dict({key: value for key, value in state_dict.items() if not key.startswith("ipu_")})
        self.ipu_state = _copied(state_dict["ipu_state"])
        self.ipu_param = _copied(state_dict["ipu_param"])
        self.has_state_to_upload = self.ipu_state is not None or self.ipu_param is not None
        self._has_param_to_upload = self.ipu_param is not None

    def __getstate__(self):
        self._read_device_state()
        state = self.__dict__.copy()
        state.pop("step", None)  # learning-rate schedulers put a wrapper there, which cannot be pickled
        state["_state_reader"] = None  # a copy is not connected to the device, but carries the state
        state["has_state_to_upload"] = state["ipu_state"] is not None
        return state


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self,
        params,
        lr,
        momentum=None,
        dampening=None,
        weight_decay=None,
        nesterov=None,
        maximize=None,
        foreach=None,
        differentiable=None,
        loss_scaling=None,
        velocity_scaling=None,
        use_combined_accum=False,
        accum_type=None,
        velocity_accum_type=None,
        max_grad_norm=None,
    ):
        given = _given(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
            loss_scaling=loss_scaling,
        )
        hints = _given(maximize=maximize, foreach=foreach, differentiable=differentiable)
        super().__init__(params, **{k: v for k, v in given.items() if k != "loss_scaling"}, **hints)
        values = {
            "loss_scaling": 1.0 if loss_scaling is None else loss_scaling,
            "use_combined_accum": use_combined_accum,
            "max_grad_norm": math.inf if max_grad_norm is None else max_grad_norm,
        }
        if use_combined_accum:
            self.defaults["velocity_scaling"] = 1.0 if velocity_scaling is None else velocity_scaling
            for group in self.param_groups:
                group.setdefault("velocity_scaling", self.defaults["velocity_scaling"])
            given.update(_given(velocity_scaling=velocity_scaling))
        elif velocity_scaling is not None:
            logger.warning("SGD ignores velocity_scaling: it only applies with use_combined_accum=True")
        values["accum_type"] = _checked_type("accum_type", accum_type)
        values["velocity_accum_type"] = _checked_type("velocity_accum_type", velocity_accum_type)
        self._init_device_side(given, **values)


def _moment_types(accum_type, first, second):
    return {
        "accum_type": _checked_type("accum_type", accum_type),
        "first_order_momentum_accum_type": _checked_type("first_order_momentum_accum_type", first),
        "second_order_momentum_accum_type": _checked_type("second_order_momentum_accum_type", second),
    }


class Adam(Optimizer, torch.optim.Adam):
    """Adam, with weight decay added to the gradient."""

    def __init__(
        self,
        params,
        lr=None,
        betas=None,
        eps=None,
        weight_decay=None,
        amsgrad=None,
        foreach=None,
        maximize=None,
        capturable=None,
        differentiable=None,
        fused=None,
        loss_scaling=None,
        accum_type=None,
        first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None,
        max_grad_norm=None,
    ):
        given = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        hints = _given(
            amsgrad=amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused,
        )
        super().__init__(params, **given, **hints)
        self._init_device_side(
            [*given, *_given(loss_scaling=loss_scaling)],
            loss_scaling=1.0 if loss_scaling is None else loss_scaling,
            max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        params,
        lr=None,
        betas=None,
        eps=None,
        weight_decay=None,
        amsgrad=None,
        maximize=None,
        foreach=None,
        capturable=None,
        differentiable=None,
        fused=None,
        loss_scaling=None,
        bias_correction=True,
        accum_type=None,
        first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None,
        max_grad_norm=None,
    ):
        given = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        # differentiable and fused came to torch's AdamW after the oldest version we support.
        hints = _given(amsgrad=amsgrad, maximize=maximize, foreach=foreach, capturable=capturable)
        del differentiable, fused
        super().__init__(params, **given, **hints)
        self._init_device_side(
            [*given, *_given(loss_scaling=loss_scaling)],
            loss_scaling=1.0 if loss_scaling is None else loss_scaling,
            bias_correction=bool(bias_correction),
            max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop, also in TensorFlow's variant."""

    def __init__(
        self,
        params,
        lr=None,
        alpha=None,
        eps=None,
        weight_decay=None,
        momentum=None,
        centered=None,
        foreach=None,
        maximize=None,
        differentiable=None,
        loss_scaling=None,
        accum_type=None,
        first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None,
        use_tf_variant=False,
    ):
        given = _given(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered)
        hints = _given(foreach=foreach, maximize=maximize, differentiable=differentiable)
        super().__init__(params, **given, **hints)
        self._init_device_side(
            [*given, *_given(loss_scaling=loss_scaling)],
            loss_scaling=1.0 if loss_scaling is None else loss_scaling,
            use_tf_variant=bool(use_tf_variant),
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )


class LAMB(Optimizer, torch.optim.Optimizer):
    """Layer-wise adaptive moments (You et al., 2020, "Large Batch Optimization for Deep Learning")."""

    def __init__(
        self,
        params,
        lr=None,
        betas=None,
        eps=None,
        weight_decay=None,
        bias_correction=True,
        loss_scaling=None,
        max_weight_norm=None,
        accum_type=None,
        first_order_momentum_accum_type=None,
        second_order_momentum_accum_type=None,
    ):
        given = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, max_weight_norm=max_weight_norm)
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "max_weight_norm": 65500.0}
        super().__init__(params, {**defaults, **given})
        self._init_device_side(
            [*given, *_given(loss_scaling=loss_scaling)],
            loss_scaling=1.0 if loss_scaling is None else loss_scaling,
            bias_correction=bool(bias_correction),
            **_moment_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        )

    @torch.no_grad()
    def step(self, closure=None):
        """One update on the host, by the rule the device uses."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(param, group)
        return loss

    def _update(self, param, group):
        state = self.state[param]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(param.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(param.grad, param.grad, value=1 - beta2)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        if self.bias_correction:
            mean = mean / (1 - beta1 ** state["step"])
            square = square / (1 - beta2 ** state["step"])
        update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * param
        weight_norm = param.norm().clamp(max=group["max_weight_norm"])
        update_norm = update.norm()
        ratio = weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
        param.sub_(group["lr"] * ratio * update)
