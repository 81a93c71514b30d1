"""The virtual IPUs: how many there are, how many a model takes, what its replicas may do."""

import torch

from . import poptorch_core
from .errors import createPoptorchError


def uses_ipu_model(options):
    """Whether the virtual IPUs stand for a model of the hardware rather than for the hardware."""
    if options.exists("use_model"):
        return options.use_model
    return poptorch_core.environment_asks_for_ipu_model()


def check_ipus(options, ipus):
    """ipus: the device of each block that the model starts. An Error if there are too many, or an odd number."""
    poptorch_core.required_ipus(
        used=set(ipus),
        replicas=options.replication_factor,
        rounds_up=options.auto_round_num_ipus,
        is_hardware=not uses_ipu_model(options) and not options.exists("ipu_version"),
        device=options.ipu_id if options.exists("ipu_id") else None,
    )


def _statistics_of_norms(module):
    """Names of the buffers that batch norm layers keep: each replica has its own, that of the first is read back."""
    return {
        f"{path}.{name}" if path else name
        for path, child in module.named_modules()
        if isinstance(child, torch.nn.modules.batchnorm._NormBase)
        for name in child._buffers
    }


def check_buffers(options, module, written):
    """written: the buffers that forward changes. Replicas with different inputs would change them differently."""
    groups = options.replication_factor // options.input_group_size
    if not options.broadcast_buffers or groups == 1:
        return
    exempt = _statistics_of_norms(module)
    for name in written:
        if name not in exempt:
            raise createPoptorchError(
                f'[compile] forward changes buffer "{name}", and {groups} replicas with inputs of their own would each '
                "change it differently. options.broadcastBuffers(False) gives each replica a copy of its own."
            )
