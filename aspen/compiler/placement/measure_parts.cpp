#include "aspen/compiler/placement/measure_parts.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "aspen/base/log.h"
#include "aspen/compiler/build_program.h"
#include "aspen/compiler/ir/clone_graph.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/kernel_bench.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/placement/stages.h"
#include "aspen/compiler/placement/task_cost.h"
#include "aspen/runtime/cpu_share.h"

namespace aspen {
namespace {

using Clock = KernelBench::Clock;

constexpr Clock::duration kMostTime = std::chrono::seconds(5);            // of all kernels
constexpr Clock::duration kTimeOfKernel = std::chrono::milliseconds(30);  // of one, after the least rounds
constexpr Clock::duration kWorthTiming = std::chrono::microseconds(200);  // shorter runs are timed by several
constexpr int kLeastRounds = 3, kRounds = 8, kMostRepeats = 64;           // the shortest round counts
constexpr std::size_t kCopiedBytes = std::size_t{4} << 20;
constexpr double kGuessedNanosecondsPerByte = 0.1;

double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// The part that an op of the trial came from; -1: from none. Passes hand locations on and decide nothing by them.
std::int64_t part_of(const Op& op) {
  const std::string& text = op.location.source;
  std::int64_t part = -1;
  std::from_chars(text.data(), text.data() + text.size(), part);
  return part;
}

std::unique_ptr<Graph> trial_of(const Graph& graph) {
  auto trial = clone_graph(graph);
  trial->set_name(graph.name() + ".parts");
  for (const auto& op : trial->ops()) {
    op->location = {.scope = "", .source = std::to_string(op->placement.stage)};
    op->placement = {};
  }
  return trial;
}

// As the user asked, on one device, and without what looks at names or may refuse the program.
CompileOptions options_of_trial(const CompileOptions& asked) {
  CompileOptions options = asked;
  options.stage_cut = {};
  options.memory_budget = {};
  options.locations = {};
  options.anchors.clear();
  options.recompute = Recompute::kNothing;
  options.progress = nullptr;
  options.num_stages = 1;
  return options;
}

double nanoseconds_per_byte_copied() {
  std::vector<std::byte> from(kCopiedBytes), to(kCopiedBytes);
  Clock::duration shortest = Clock::duration::max();
  for (int round = 0; round < kLeastRounds; ++round) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), kCopiedBytes);
    from[static_cast<std::size_t>(round)] = to[kCopiedBytes - 1];
    shortest = std::min(shortest, Clock::now() - begin);
  }
  return nanoseconds(shortest) / static_cast<double>(kCopiedBytes);
}

// An op and the instruction it has become.
struct Call {
  const Op* op;
  const Instruction* instruction;
};

std::vector<Call> calls_of(const Graph& graph, const Program& program) {
  std::vector<const Task*> tasks;
  for (const auto* section : {&program.step, &program.update}) {
    for (const Task& task : *section) tasks.push_back(&task);
  }
  std::vector<std::size_t> next(tasks.size(), 0);
  std::vector<Call> calls;
  for (const auto& op : graph.ops()) {
    if (!has_kernel(*op)) continue;
    const auto& instructions = tasks[static_cast<std::size_t>(op->task)]->instructions;
    std::size_t& at = next[static_cast<std::size_t>(op->task)];
    while (instructions[at].is_copy) ++at;
    calls.push_back({op.get(), &instructions[at++]});
  }
  return calls;
}

// Times of kernels, each found once.
class KernelTimes {
 public:
  KernelTimes(const std::vector<Call>& calls, std::size_t num_threads) : bench_(num_threads) {
    std::map<const Kernel*, double> guesses;
    std::vector<Call> order;
    for (const Call& call : calls) {
      double& sum = guesses[call.instruction->kernel.get()];
      if (sum == 0) order.push_back(call);
      sum += estimate_nanoseconds(*call.op);
    }
    std::stable_sort(order.begin(), order.end(), [&](const Call& a, const Call& b) {
      return guesses[a.instruction->kernel.get()] > guesses[b.instruction->kernel.get()];
    });
    const auto deadline = Clock::now() + kMostTime;
    double measured = 0, guessed = 0;
    for (const Call& call : order) {
      if (Clock::now() >= deadline || !may_run(call)) continue;
      const double time = measure(*call.instruction);
      if (time == 0) continue;
      times_.emplace(call.instruction->kernel.get(), time);
      measured += time;
      guessed += estimate_nanoseconds(*call.op);
    }
    if (guessed > 0) scale_ = measured / guessed;
    log::debug("[cut_stages] {} of {} kernels timed; {:.2f} times as long as guessed", times_.size(), order.size(),
               scale_);
  }

  double operator[](const Call& call) const {
    const auto found = times_.find(call.instruction->kernel.get());
    return found != times_.end() ? found->second : scale_ * estimate_nanoseconds(*call.op);
  }

 private:
  static bool may_run(const Call& call) {
    return !call.op->is_impure() && !call.instruction->kernel->calls_host() && !call.instruction->spans_replicas;
  }

  double measure(const Instruction& instruction) {
    const Kernel& kernel = *instruction.kernel;
    if (!bench_.take_memory(instruction.request, kernel.workspace_bytes(), kernel.packed_bytes())) return 0;
    kernel.reserve(bench_.num_threads());
    const Clock::duration first = std::max(bench_.run(kernel, 1), Clock::duration(1));
    const int repeats = static_cast<int>(std::clamp<Clock::rep>(kWorthTiming / first, 1, kMostRepeats));
    Clock::duration shortest = Clock::duration::max();
    const auto begin = Clock::now();
    for (int round = 0; round < kRounds; ++round) {
      if (round >= kLeastRounds && Clock::now() - begin > kTimeOfKernel) break;
      shortest = std::min(shortest, bench_.run(kernel, repeats));
    }
    return nanoseconds(shortest);
  }

  KernelBench bench_;
  std::map<const Kernel*, double> times_;
  double scale_ = 1;
};

// Everything but the times.
class PartCounter {
 public:
  PartCounter(const Graph& graph, PartCosts& costs) : graph_(graph), costs_(costs), is_remade_(graph) {}

  void run() {
    for (const auto& op : graph_.ops()) {
      count_scratch(*op);
      const bool is_forward = op->section == Section::kStep && !op->backward;
      if (is_forward && !op->def().is_alias() && !is_remade_(*op)) count_results(*op);
    }
    for (const auto& variable : graph_.variables()) count_variable(*variable);
  }

 private:
  PartCosts::Part& part(std::int64_t index) { return costs_.parts[static_cast<std::size_t>(index)]; }

  // Users of a value and of its aliases.
  template <class Visit>
  static void for_each_user(const Value& value, const Visit& visit) {
    for (const Op* user : value.users()) {
      if (!user->def().is_alias()) {
        visit(*user);
        continue;
      }
      for (const Value* alias : user->outputs()) for_each_user(*alias, visit);
    }
  }

  void count_scratch(const Op& op) {
    if (part_of(op) < 0 || op.def().is_alias() || op.section != Section::kStep) return;
    double bytes = 0;
    for (const Value* output : op.outputs()) bytes += static_cast<double>(output->type().bytes());
    double& most = part(part_of(op)).scratch_bytes;
    most = std::max(most, bytes);
  }

  void count_results(const Op& op) {
    const std::int64_t made = part_of(op);
    if (made < 0) return;
    for (const Value* output : op.outputs()) {
      std::set<std::int64_t> used;
      bool is_saved = false;
      for_each_user(*output, [&](const Op& user) {
        is_saved = is_saved || user.backward;
        if (!user.backward && user.section == Section::kStep && part_of(user) > made) used.insert(part_of(user));
      });
      const auto bytes = static_cast<double>(output->type().bytes());
      if (is_saved) part(made).saved_bytes += bytes;
      if (!used.empty()) costs_.values.push_back({made, {used.begin(), used.end()}, bytes});
    }
  }

  // State of the optimiser belongs to the parameter it is named after.
  const Variable& owner_of(const Variable& variable) const {
    const auto mark = variable.name.find("___");
    if (mark == std::string::npos) return variable;
    const Variable* owner = graph_.find_variable(std::string_view(variable.name).substr(mark + 3));
    return owner == nullptr ? variable : *owner;
  }

  void count_variable(const Variable& variable) {
    std::set<std::int64_t> parts;
    for_each_user(*owner_of(variable).value, [&](const Op& user) {
      if (user.section == Section::kStep && !user.backward && part_of(user) >= 0) parts.insert(part_of(user));
    });
    if (parts.empty()) return;
    const auto bytes = static_cast<double>(variable.value->type().bytes());
    const std::int64_t first = *parts.begin();
    part(first).variable_bytes += bytes;
    if (parts.size() == 1 || &owner_of(variable) != &variable) return;
    if (is_assigned_in_step(*variable.value)) {  // one stage has all that use it
      for (std::int64_t i = first + 1; i <= *parts.rbegin(); ++i) part(i).may_begin_stage = false;
    } else if (variable.trainable) {
      costs_.values.push_back({first, {std::next(parts.begin()), parts.end()}, bytes});
    }
  }

  const Graph& graph_;
  PartCosts& costs_;
  RemadeOps is_remade_;
};

void add_times(const Graph& graph, const Program& program, const CompileOptions& options, PartCosts& costs) {
  const std::vector<Call> calls = calls_of(graph, program);
  const StageCut& cut = options.stage_cut;
  std::optional<KernelTimes> times;
  if (cut.measures) {
    const std::size_t threads = usable_cpus(0).cpus.size() / static_cast<std::size_t>(cut.devices);
    times.emplace(calls, std::max<std::size_t>(1, threads));
    costs.nanoseconds_per_byte = nanoseconds_per_byte_copied();
  } else {
    costs.nanoseconds_per_byte = kGuessedNanosecondsPerByte;
  }
  const auto accumulated = static_cast<double>(options.gradient_accumulation);
  for (const Call& call : calls) {
    const std::int64_t part = part_of(*call.op);
    if (part < 0) continue;
    PartCosts::Part& found = costs.parts[static_cast<std::size_t>(part)];
    const double time = times ? (*times)[call] : estimate_nanoseconds(*call.op);
    const bool is_update = call.op->section == Section::kUpdate;
    (call.op->backward || is_update ? found.backward : found.forward) += is_update ? time / accumulated : time;
  }
}

}  // namespace

PartCosts measure_parts(const Graph& graph, const PassContext& context) {
  const CompileOptions& asked = context.options;
  const auto trial = trial_of(graph);
  const CompileOptions options = options_of_trial(asked);
  run_passes(*trial, passes_after("cut_stages", options.training), {.options = options, .backend = context.backend});
  const auto program = build_program(*trial, options, *context.backend);
  PartCosts costs;
  costs.parts.resize(asked.stage_cut.parts.size());
  for (std::size_t i = 0; i < costs.parts.size(); ++i) {
    costs.parts[i].last_call = asked.stage_cut.parts[i].last_call;
    costs.parts[i].may_begin_stage = !asked.stage_cut.parts[i].module.empty();
  }
  costs.is_training = asked.training;
  costs.recomputes = asked.training && asked.recompute == Recompute::kStages;
  PartCounter(*trial, costs).run();
  add_times(*trial, *program, asked, costs);
  return costs;
}

}  // namespace aspen
