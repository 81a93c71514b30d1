// Stages, phases and strategies as Python has them: strings, lists and tuples stand for stages, and a stage that was
// given to a strategy is that of the strategy.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "poptorch/error.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"
#include "poptorch/strategy.h"

namespace py = pybind11;

namespace poptorch {
namespace {

using StagePointer = std::shared_ptr<Stage>;
using Strategy = ExecutionStrategy;
template <class T>
using StrategyClass = py::class_<T, Strategy, std::shared_ptr<T>>;

bool is_stage(const py::handle& object) { return py::isinstance<Stage>(object); }

template <class Check>
bool all(const py::sequence& items, const Check& check) {
  return std::all_of(items.begin(), items.end(), [&](const py::handle& item) { return check(item); });
}

StagePointer stage_of_blocks(const py::sequence& blocks) {
  if (!all(blocks, is_text)) {
    throw ArgumentError(fmt::format("A Stage is made of block ids, which are strings: {}", repr_of(blocks)));
  }
  return std::make_shared<Stage>(blocks.cast<std::vector<std::string>>());
}

StagePointer as_stage(const py::handle& item) {
  if (is_stage(item)) return item.cast<StagePointer>();
  if (is_text(item)) return std::make_shared<Stage>(item.cast<std::string>());
  if (!is_list_or_tuple(item)) {
    throw ArgumentError(fmt::format("Expected a Stage, a block id or a list of block ids, not {}", repr_of(item)));
  }
  return stage_of_blocks(py::reinterpret_borrow<py::sequence>(item));
}

Phase phase_of(const py::sequence& items) {
  if (py::len(items) > 0 && all(items, is_stage)) return Phase(items.cast<SharedStages>());
  if (!all(items, is_text)) {
    throw ArgumentError(fmt::format("A Phase is made of Stages or of block ids, not of both: {}", repr_of(items)));
  }
  return Phase(SharedStages{stage_of_blocks(items)});
}

Phase as_phase(const py::handle& item) {
  if (py::isinstance<Phase>(item)) return Phase(item.cast<const Phase&>().stages());
  if (is_list_or_tuple(item)) return phase_of(py::reinterpret_borrow<py::sequence>(item));
  return phase_of(py::make_tuple(item));
}

// One argument per phase, or one list of Phases.
std::vector<Phase> phases_of(const py::args& arguments) {
  py::sequence items = arguments;
  if (arguments.size() == 1 && is_list_or_tuple(arguments[0]) &&
      all(arguments[0], [](const py::handle& item) { return py::isinstance<Phase>(item); })) {
    items = arguments[0];
  }
  std::vector<Phase> phases;
  for (const py::handle item : items) phases.push_back(as_phase(item));
  return phases;
}

std::int64_t integer_argument(const char* who, const py::handle& object) {
  if (!is_integer(object)) throw ArgumentError(fmt::format("{} expects an int, not {}", who, repr_of(object)));
  return object.cast<std::int64_t>();
}

bool truth_argument(const char* who, const py::handle& object) {
  if (!PyBool_Check(object.ptr())) throw ArgumentError(fmt::format("{} expects a bool, not {}", who, repr_of(object)));
  return object.cast<bool>();
}

// From the end if it is negative.
std::size_t index_in(std::int64_t index, std::size_t size) {
  return static_cast<std::size_t>(index < 0 ? index + static_cast<std::int64_t>(size) : index);
}

// -- copies and pickles ---------------------------------------------------------------------------------------------

py::tuple state_of(const Stage& stage) { return py::make_tuple(stage.blocks(), stage.ipu()); }

StagePointer stage_from(const py::handle& state) {
  const auto [blocks, ipu] = state.cast<std::pair<std::vector<std::string>, std::optional<std::int64_t>>>();
  auto stage = std::make_shared<Stage>(blocks);
  if (ipu) stage->ipu(*ipu);
  return stage;
}

py::list state_of(const Phase& phase) {
  py::list stages;
  for (const StagePointer& stage : phase.stages()) stages.append(state_of(*stage));
  return stages;
}

Phase phase_from(const py::handle& state) {
  SharedStages stages;
  for (const py::handle stage : state) stages.push_back(stage_from(stage));
  return Phase(std::move(stages));
}

py::list states_of(const std::vector<Phase>& phases) {
  py::list states;
  for (const Phase& phase : phases) states.append(state_of(phase));
  return states;
}

std::vector<Phase> phases_from(const py::handle& states) {
  std::vector<Phase> phases;
  for (const py::handle state : states) phases.push_back(phase_from(state));
  return phases;
}

// -- classes --------------------------------------------------------------------------------------------------------

template <class T>
std::shared_ptr<T> staged(const py::args& arguments) {
  if (arguments.empty()) return std::make_shared<T>();
  if (arguments.size() == 1 && is_member_of("AutoStage", arguments[0])) {
    return std::make_shared<T>(static_cast<AutoStage>(py::int_(arguments[0]).cast<int>()));
  }
  SharedStages stages;
  for (const py::handle argument : arguments) stages.push_back(as_stage(argument));
  return std::make_shared<T>(T::with(stages));
}

template <class T>
void bind_staged(py::module_& module, const char* name, const char* documentation) {
  StrategyClass<T> bound(module, name, documentation);
  bound.attr("__module__") = "poptorch";
  bound.def(py::init(&staged<T>));
  bound.def(py::pickle(
      [](const T& strategy) {
        if (const auto rule = strategy.autoStage()) return py::make_tuple(static_cast<int>(*rule), py::none());
        return py::make_tuple(py::none(), state_of(strategy.phases()[0]));
      },
      [](const py::tuple& state) {
        if (!state[0].is_none()) return std::make_shared<T>(static_cast<AutoStage>(state[0].template cast<int>()));
        return std::make_shared<T>(T::with(phase_from(state[1]).stages()));
      }));
}

template <class T>
auto bind_phased(py::module_& module, const char* name, const char* documentation, void (*set_liveness)(T&, Liveness)) {
  StrategyClass<T> bound(module, name, documentation);
  bound.attr("__module__") = "poptorch";
  bound.def(py::init([](const py::args& phases) { return std::make_shared<T>(phases_of(phases)); }));
  bound.def(
      "phase",
      [](T& strategy, std::int64_t index) -> Phase& {
        return strategy.phase(index_in(index, strategy.phases().size()));
      },
      py::arg("index"), py::return_value_policy::reference_internal, "One of the phases.");
  bound.def(
      "useSeparateBackwardPhase",
      [](std::shared_ptr<T> strategy, const py::object& use) {
        strategy->useSeparateBackwardPhase(truth_argument("useSeparateBackwardPhase", use));
        return strategy;
      },
      py::arg("use") = true, "The backward pass of the last phase is a phase of its own.");
  bound.def(py::pickle(
      [](const T& strategy) {
        return py::make_tuple(states_of(strategy.phases()), strategy.separateBackwardPhase(),
                              static_cast<int>(strategy.liveness()));
      },
      [set_liveness](const py::tuple& state) {
        auto strategy = std::make_shared<T>(phases_from(state[0]));
        strategy->useSeparateBackwardPhase(state[1].template cast<bool>());
        set_liveness(*strategy, static_cast<Liveness>(state[2].template cast<int>()));
        return strategy;
      }));
  return bound;
}

void bind_auto_pipeline(py::module_& module) {
  StrategyClass<AutoPipeline> bound(
      module, "AutoPipeline",
      "A pipeline over IPUs 0 to num_ipus - 1 for a model without blocks: the compiler cuts it where the slowest stage "
      "is\n"
      "fastest, at calls of modules. measure: by the times of ops on this machine; False: by a guess from shapes, "
      "which\n"
      "is the same everywhere. PoplarExecutor.stageBlocks tells the cut as blocks. Results do not depend on it.");
  bound.attr("__module__") = "poptorch";
  bound.def(py::init([](const py::object& num_ipus, const py::object& measure) {
              return std::make_shared<AutoPipeline>(integer_argument("AutoPipeline: num_ipus", num_ipus),
                                                    truth_argument("AutoPipeline: measure", measure));
            }),
            py::arg("num_ipus"), py::arg("measure") = true);
  bound.def(
      py::pickle([](const AutoPipeline& strategy) { return py::make_tuple(strategy.autoIpus(), strategy.measures()); },
                 [](const py::tuple& state) {
                   return std::make_shared<AutoPipeline>(state[0].cast<std::int64_t>(), state[1].cast<bool>());
                 }));
}

void bind_stage_and_phase(py::module_& module) {
  py::class_<Stage, StagePointer> stage(module, "Stage", "Blocks that run together on one device.");
  stage.attr("__module__") = "poptorch";
  stage.def(py::init([](const py::args& blocks) { return stage_of_blocks(blocks); }));
  stage.def_property_readonly("blocks", &Stage::blocks, "The names of its blocks.");
  stage.def(
      "ipu",
      [](StagePointer self, const py::object& ipu) {
        self->ipu(integer_argument("Stage.ipu", ipu));
        return self;
      },
      py::arg("ipu"), "The device of the stage; by default the one of its blocks, or the number of the stage.");
  stage.def("__repr__", &Stage::toString);
  stage.def(py::pickle([](const Stage& self) { return state_of(self); },
                       [](const py::tuple& state) { return stage_from(state); }));

  py::class_<Phase, std::shared_ptr<Phase>> phase(module, "Phase", "Stages that run in parallel in one phase.");
  phase.attr("__module__") = "poptorch";
  phase.def(py::init([](const py::args& items) { return std::make_shared<Phase>(phase_of(items)); }));
  phase.def(
      "stage",
      [](Phase& self, std::int64_t index) {
        const std::size_t at = index_in(index, self.stages().size());
        self.stage(at);  // checks it
        return self.stages()[at];
      },
      py::arg("index"), "One of the stages.");
  phase.def(
      "ipus",
      [](Phase& self, const py::args& ipus) {
        std::vector<std::int64_t> ids;
        for (const py::handle ipu : ipus) ids.push_back(integer_argument("Phase.ipus", ipu));
        self.ipus(ids);
      },
      "One device per stage.");
  phase.def("__repr__", &Phase::toString);
  phase.def(py::pickle([](const Phase& self) { return py::make_tuple(state_of(self)); },
                       [](const py::tuple& state) { return std::make_shared<Phase>(phase_from(state[0])); }));
}

}  // namespace

void bind_strategies(py::module_& module) {
  bind_stage_and_phase(module);
  py::class_<Strategy, std::shared_ptr<Strategy>>(module, "ExecutionStrategy")
      .def("stage", &Strategy::stage, py::arg("block_id"), "The stage of a block.")
      .def(
          "_place",
          [](Strategy& self, const std::string& block, std::optional<std::int64_t> ipu_id) {
            const auto [stage, phase, ipu] = self.place(block, ipu_id);
            return std::tuple(stage, phase, ipu);
          },
          py::arg("block_id"), py::arg("ipu_id"), "Stage, phase and device of a block that starts now.")
      .def_property_readonly("_is_pipelined", [](const Strategy& s) { return s.kind() == Strategy::Kind::Pipelined; })
      .def_property_readonly("_is_phased", &Strategy::isPhased)
      .def_property_readonly("_auto_ipus", &Strategy::autoIpus)
      .def_property_readonly("_liveness", [](const Strategy& self) { return static_cast<int>(self.liveness()); })
      .def_property_readonly("_separate_backward_phase", &Strategy::separateBackwardPhase)
      .def("__repr__", &Strategy::toString);
  bind_staged<PipelinedExecution>(module, "PipelinedExecution",
                                  "Stages work at the same time on different micro-batches.");
  bind_auto_pipeline(module);
  bind_staged<ShardedExecution>(module, "ShardedExecution", "Stages work one after the other.");
  bind_phased<SerialPhasedExecution>(
      module, "SerialPhasedExecution", "All phases on the same devices.",
      [](SerialPhasedExecution& strategy, Liveness liveness) { strategy.setTensorsLiveness(liveness); })
      .def(
          "setTensorsLiveness",
          [](std::shared_ptr<SerialPhasedExecution> self, const py::object& liveness) {
            member_of("Liveness", liveness);  // checks it
            self->setTensorsLiveness(static_cast<Liveness>(py::int_(liveness).cast<int>()));
            return self;
          },
          py::arg("liveness"), "When the tensors of a phase leave the device.");
  bind_phased<ParallelPhasedExecution>(module, "ParallelPhasedExecution",
                                       "Even phases on even devices, odd phases on odd ones.",
                                       [](ParallelPhasedExecution& strategy, Liveness liveness) {
                                         strategy.sendTensorsOffChipAfterFwd(liveness != Liveness::AlwaysLive);
                                       })
      .def(
          "sendTensorsOffChipAfterFwd",
          [](std::shared_ptr<ParallelPhasedExecution> self, const py::object& off_chip) {
            self->sendTensorsOffChipAfterFwd(truth_argument("sendTensorsOffChipAfterFwd", off_chip));
            return self;
          },
          py::arg("off_chip") = true, "Whether the tensors of a phase leave the device after its forward pass.");
}

}  // namespace poptorch
