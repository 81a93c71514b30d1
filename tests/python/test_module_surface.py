"""The names of the package, how they are called, and the numbers of its enumerations, which programs see."""

import enum
import importlib
import inspect

import poptorch
import poptorch.testing
import pytest
import torch

NAMES = {
    "wrapping": "trainingModel inferenceModel PoplarExecutor load",
    "data": "DataLoader AsynchronousDataAccessor DataLoaderMode SharingStrategy",
    "options": "Options TensorLocationSettings ConfigFileError",
    "strategies": "PipelinedExecution ShardedExecution SerialPhasedExecution ParallelPhasedExecution Stage Phase AutoStage "
                  "Liveness BlockId",
    "annotations": "Block BeginBlock BlockFunction removeBlocks NameScope Attribute MultiConv MultiConvPlanType",
    "ops": "identity_loss ipu_print_tensor nop for_loop cond recomputationCheckpoint serializedMatMul "
           "set_available_memory set_overlap_for_input set_overlap_for_output dynamic_slice dynamic_update "
           "ctc_beam_search_decoder custom_op CPU fps nearest",
    "enumerations": "OutputMode ConnectionType ReductionType MeanReductionStrategy SyncPattern OverlapMode "
                    "MatMulSerializationMode CommGroupType VariableRetrievalMode HalfFloatCastingBehavior",
    "errors": "Error RecoverableError UnrecoverableError createPoptorchError",
    "helpers": "isRunningOnIpu ipuHardwareIsAvailable ipuHardwareVersion setLogLevel module_repr print getIpuTensorId "
               "accessAttributes importPoptorchMetadataFromFile",
    "extension": "ICustomArgParser registerCustomArgParser registerPreCompileHook registerPostCompileHook",
    "modules": "optim profiling options enums ops testing poptorch_core",
}


@pytest.mark.parametrize("group", NAMES)
def test_every_name_of_the_contract_is_there(group):
    assert [name for name in NAMES[group].split() if not hasattr(poptorch, name)] == []


SIGNATURES = {
    "trainingModel": "(model, options=None, optimizer=None)",
    "inferenceModel": "(model, options=None)",
    "load": "(filename, edit_opts_fn=None)",
    "PoplarExecutor.compile": "(self, *args, **kwargs)",
    "PoplarExecutor.compileAndExport": "(self, filename, *args, export_model=True, **kwargs)",
    "PoplarExecutor.save": "(self, filename, export_model=True, save_rng_state=True)",
    "PoplarExecutor.load_state_dict": "(self, state_dict, strict=True)",
    "Options.outputMode": "(self, output_mode, output_return_period=None)",
    "Options.anchorTensor": "(self, short_name, long_name, output_mode=None, output_return_period=1)",
    "Options.useOfflineIpuTarget": "(self, ipu_version=2)",
    "Options.enableProfiling": "(self, profile_dir=None)",
    "BeginBlock": "(layer_to_call, user_id=None, ipu_id=None)",
    "BlockFunction": "(user_id=None, ipu_id=None)",
    "Block": "(user_id=None, ipu_id=None)",
    "Block.start": "(user_id=None, ipu_id=None)",
    "CPU": "(layer_to_call, ID)",
    "registerCustomArgParser": "(arg_type, parser)",
    "AsynchronousDataAccessor": "(dataset, buffer_size=3, miss_sleep_time_in_ms=0.1, load_indefinitely=True, "
                                "early_preload=False, sharing_strategy=<SharingStrategy.ForkServer: 3>, "
                                "rebatched_size=None)",
    "DataLoader": "(options, dataset, batch_size=1, shuffle=None, num_workers=0, drop_last=True, persistent_workers=None, "
                  "auto_distributed_partitioning=True, mode=<DataLoaderMode.Sync: 0>, async_options=None, "
                  "rebatched_worker_size=None, batch_sampler=None, **kwargs)",
}


def found(name):
    thing = poptorch
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_have_their_order_and_defaults(name):
    assert str(inspect.signature(found(name))) == SIGNATURES[name]


ENUMERATIONS = {
    "OutputMode": {"Final": 0, "EveryN": 1, "All": 2, "Sum": 3, "Default": 4},
    "ConnectionType": {"Always": 0, "OnDemand": 1, "Never": 2},
    "DataLoaderMode": {"Sync": 0, "Async": 1, "AsyncRebatched": 2},
    "SharingStrategy": {"SharedMemory": 0, "FileSystem": 1, "Fork": 2, "ForkServer": 3},
    "ReductionType": {"Sum": 0, "Mean": 1, "NoReduction": 2},
    "MeanReductionStrategy": {"Running": 0, "Post": 1, "PostAndLoss": 2},
    "SyncPattern": {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2},
    "AutoStage": {"SameAsIpu": 0, "AutoIncrement": 1},
    "Liveness": {"AlwaysLive": 0, "OffChipAfterFwd": 1, "OffChipAfterFwdNoOverlap": 2, "OffChipAfterEachPhase": 3},
    "MultiConvPlanType": {"Parallel": 0, "Serial": 1},
    "CommGroupType": {"All": 0, "Consecutive": 1, "Orthogonal": 2, "NoGrouping": 3},
    "VariableRetrievalMode": {"OnePerGroup": 0, "AllReplicas": 2},
    "HalfFloatCastingBehavior": {"FloatDowncastToHalf": 0, "HalfUpcastToFloat": 1, "Default": 2},
    "MatMulSerializationMode": {"InputChannels": "input_channels", "ReducingDim": "reducing_dim",
                                "OutputChannels": "output_channels", "Disabled": "none"},
    "OverlapMode": {"NoOverlap": "no_overlap", "OverlapAccumulationLoop": "overlap_accumulation_loop",
                    "OverlapDeviceIterationLoop": "overlap_device_iteration_loop"},
}


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_members_of_enumerations_have_their_values(name):
    enumeration = getattr(poptorch, name)
    assert {member.name: member.value for member in enumeration} == ENUMERATIONS[name]
    assert getattr(poptorch.enums, name) is enumeration
    is_number = name not in ("MatMulSerializationMode", "OverlapMode")
    assert issubclass(enumeration, enum.IntEnum) == is_number


def test_both_wrappers_make_the_same_class():
    model = torch.nn.Linear(2, 2)
    for executor in (poptorch.inferenceModel(model), poptorch.trainingModel(model)):
        assert type(executor) is poptorch.PoplarExecutor
    assert importlib.import_module("poptorch._poplar_executor").PoplarExecutor is poptorch.PoplarExecutor


def test_classes_of_option_groups_have_underscore_names():
    options = poptorch.Options()
    for group, name in (("Jit", "_JitOptions"), ("Precision", "_PrecisionOptions"), ("Training", "_TrainingOptions"),
                        ("_Popart", "_PopartOptions"), ("Distributed", "_DistributedOptions"),
                        ("TensorLocations", "_TensorLocationOptions")):
        assert type(getattr(options, group)) is getattr(poptorch.options, name)


def test_optimisers_of_the_package():
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        own = getattr(poptorch.optim, name)
        assert issubclass(own, poptorch.optim.Optimizer) and issubclass(own, getattr(torch.optim, name))
    assert issubclass(poptorch.optim.LAMB, poptorch.optim.Optimizer)
    assert issubclass(poptorch.optim.LAMB, torch.optim.Optimizer)
    assert not issubclass(poptorch.optim.Optimizer, torch.optim.Optimizer)
    made = poptorch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    assert isinstance(made.variable_attrs, poptorch.optim.VariableAttributes)


def test_the_native_core_raises_the_same_error_class():
    assert poptorch.poptorch_core.Error is poptorch.Error
    assert issubclass(poptorch.RecoverableError, poptorch.Error)
    assert issubclass(poptorch.UnrecoverableError, poptorch.Error)
    assert isinstance(poptorch.createPoptorchError("text"), poptorch.Error)


def test_version_and_names_of_blocks_are_texts():
    assert isinstance(poptorch.__version__, str) and poptorch.__version__.startswith("3.4")
    assert poptorch.BlockId is str


def test_modules_are_unwrapped_and_wrapped_again():
    """What programs do around torch.save of a whole module."""
    impl = importlib.import_module("poptorch._impl")
    model = torch.nn.Linear(2, 2)
    impl.unwrapModelIfNecessary(model)  # not wrapped: nothing happens
    impl.rewrapModelIfNecessary(model)
    assert type(model) is torch.nn.Linear
    executor = poptorch.trainingModel(model)
    wrapped = type(model), type(model.weight)
    impl.unwrapModelIfNecessary(model)
    assert type(model) is torch.nn.Linear and type(model.weight) is torch.nn.Parameter
    impl.rewrapModelIfNecessary(model)
    assert (type(model), type(model.weight)) == wrapped and executor.model is model
