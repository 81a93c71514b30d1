#include "pipeline_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "aspen/backends/api/callable_kernel.h"

namespace aspen::testing {
namespace {

float initial_weight(std::size_t stage) { return 1 + static_cast<float>(stage % 4) / 64; }

// The arithmetic, shared with PlainChain.
void multiply(const float* a, const float* b, float* to) {
  for (std::int64_t i = 0; i < kWidth; ++i) to[i] = a[i] * b[i];
}
void multiply_add(const float* a, const float* b, float* to) {
  for (std::int64_t i = 0; i < kWidth; ++i) to[i] += a[i] * b[i];
}
void apply(float* w, float* a) {
  for (std::int64_t i = 0; i < kWidth; ++i) {
    w[i] -= kLearningRate * a[i];
    a[i] = 0;
  }
}

class ChainBuilder {
 public:
  explicit ChainBuilder(const PipelineSpec& spec) : spec_(spec), num_stages_(spec.devices.size()) {
    program_->name = "chain";
    program_->training = spec.training;
    program_->gradient_accumulation = spec.accumulation;
    program_->replicas = spec.replicas;
    program_->input_grouping = spec.input_grouping;
    program_->inputs.push_back({"x", tensor_type()});
    program_->outputs.push_back({"y", tensor_type()});
    program_->devices.resize(*std::max_element(spec.devices.begin(), spec.devices.end()) + 1);
  }

  std::shared_ptr<Program> build() {
    for (std::size_t s = 0; s < num_stages_; ++s) add_stage(s);
    for (std::size_t s = 0; s < num_stages_; ++s) program_->step.push_back(forward(s));
    if (spec_.training) {
      for (std::size_t s = num_stages_ - 1; s-- > 0;) program_->step.push_back(backward(s));
      for (std::size_t d = 0; d < program_->devices.size(); ++d) add_update(d);
    }
    return program_;
  }

 private:
  bool is_last(std::size_t stage) const { return stage + 1 == num_stages_; }
  std::size_t forward_task(std::size_t stage) const { return stage; }
  // The last stage runs both in one task.
  std::size_t last_task(std::size_t stage) const {
    return spec_.training && !is_last(stage) ? 2 * (num_stages_ - 1) - stage : stage;
  }

  static BufferRef buffer(Arena arena, std::size_t owner, std::size_t number) {
    return {.arena = arena, .owner = owner, .offset = number * kSpace, .bytes = kBytes};
  }
  // Weights and sums lie without gaps on each device.
  std::size_t position(std::size_t s) const {
    auto before =
        std::count(spec_.devices.begin(), spec_.devices.begin() + static_cast<std::ptrdiff_t>(s), spec_.devices[s]);
    return static_cast<std::size_t>(before) * (spec_.training ? 2 : 1);
  }
  BufferRef weight(std::size_t s) const { return buffer(Arena::kVariables, spec_.devices[s], position(s)); }
  BufferRef sum(std::size_t s) const { return buffer(Arena::kVariables, spec_.devices[s], position(s) + 1); }
  static BufferRef x(std::size_t s) { return buffer(Arena::kSlots, s, 0); }
  static BufferRef gradient(std::size_t s) { return buffer(Arena::kSlots, s, 1); }

  Instruction call(const std::string& op, std::size_t stage, std::vector<BufferRef> inputs,
                   std::vector<BufferRef> outputs, void (*run)(const KernelArgs&)) {
    std::string what = op + " " + std::to_string(stage);
    auto hooked = [run, what, hook = spec_.hook](const KernelArgs& args) {
      if (hook) hook(what, *args.step);
      run(args);
    };
    return instruction(op, std::move(inputs), std::move(outputs), hooked);
  }

  void add_stage(std::size_t s) {
    std::size_t device = spec_.devices[s];
    auto remaining = static_cast<std::int64_t>(num_stages_ - s);
    bool receives_gradient = spec_.training && !is_last(s);
    program_->lanes.push_back({.device = device,
                               .depth = spec_.takes_turns ? 1
                                        : spec_.training  ? remaining + 1
                                                          : 2,
                               .slot_bytes = receives_gradient ? 2 * kSpace : kSpace});
    program_->variables.push_back({.name = "w" + std::to_string(s),
                                   .type = tensor_type(),
                                   .places = {weight(s)},
                                   .initial = initial_weight(s),
                                   .grouping = spec_.weight_grouping});
    if (spec_.training) {
      program_->variables.push_back({.name = "a" + std::to_string(s),
                                     .type = tensor_type(),
                                     .places = {sum(s)},
                                     .kind = VariableKind::kAccumulator,
                                     .reduced = true,
                                     .grouping = spec_.weight_grouping});
    }
    DevicePlan& plan = program_->devices[device];
    plan.variable_bytes += spec_.training ? 2 * kSpace : kSpace;
    if (!is_last(s)) return;
    plan.scratch_bytes = kSpace;
    plan.constant_bytes = kSpace;
    V ones(kWidth, 1.0f);
    ProgramConstant one{.buffer = buffer(Arena::kConstants, device, 0), .bytes = std::vector<std::byte>(kBytes)};
    std::memcpy(one.bytes.data(), ones.data(), kBytes);
    program_->constants.push_back(std::move(one));
  }

  Task task(const std::string& name, std::size_t s) const {
    return {.name = name + " of stage " + std::to_string(s),
            .device = spec_.devices[s],
            .lane = s,
            .stage = static_cast<std::int64_t>(s)};
  }

  Task forward(std::size_t s) {
    Task result = task("forward", s);
    if (s == 0) {
      result.inputs.push_back({.input = 0, .to = x(0)});
      result.waits.push_back({.task = last_task(0), .lag = program_->lanes[0].depth});
    } else {
      result.waits.push_back({.task = forward_task(s - 1)});
    }
    BufferRef y = is_last(s) ? buffer(Arena::kScratch, spec_.devices[s], 0) : x(s + 1);
    result.instructions.push_back(call("forward", s, {x(s), weight(s)}, {y}, [](const KernelArgs& args) {
      multiply(input(args, 0), input(args, 1), output(args, 0));
    }));
    if (is_last(s)) {
      result.outputs.push_back({.output = 0, .from = y});
      if (spec_.training) {
        result.cost = 3;
        add_backward(result, s, buffer(Arena::kConstants, spec_.devices[s], 0));
      }
    } else {
      result.waits.push_back({.task = last_task(s + 1), .lag = program_->lanes[s + 1].depth});
    }
    return result;
  }

  Task backward(std::size_t s) {
    Task result = task("backward", s);
    result.cost = 2;
    result.waits = {{.task = forward_task(s)}, {.task = last_task(s + 1)}};
    add_backward(result, s, gradient(s));
    return result;
  }

  void add_backward(Task& task, std::size_t s, BufferRef of_output) {
    task.instructions.push_back(call("sum", s, {of_output, x(s), sum(s)}, {sum(s)}, [](const KernelArgs& args) {
      multiply_add(input(args, 0), input(args, 1), output(args, 0));
    }));
    if (s == 0) return;
    task.instructions.push_back(
        call("backward", s, {of_output, weight(s)}, {gradient(s - 1)},
             [](const KernelArgs& args) { multiply(input(args, 0), input(args, 1), output(args, 0)); }));
  }

  void add_update(std::size_t device) {
    Task result{.name = "update of device " + std::to_string(device), .device = device};
    for (std::size_t s = 0; s < num_stages_; ++s) {
      if (spec_.devices[s] != device) continue;
      result.instructions.push_back(call("update", s, {weight(s), sum(s)}, {weight(s), sum(s)},
                                         [](const KernelArgs& args) { apply(output(args, 0), output(args, 1)); }));
    }
    if (!result.instructions.empty()) program_->update.push_back(std::move(result));
  }

  const PipelineSpec& spec_;
  std::size_t num_stages_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
};

}  // namespace

Instruction instruction(std::string op, std::vector<BufferRef> inputs, std::vector<BufferRef> outputs,
                        std::function<void(const KernelArgs&)> run) {
  return {.request = {.op = std::move(op)},
          .location = "model.py:3",
          .kernel = make_kernel(std::move(run)),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

const float* input(const KernelArgs& args, std::size_t i) { return static_cast<const float*>(args.inputs[i]); }
float* output(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }

std::shared_ptr<Program> pipeline_program(const PipelineSpec& spec) { return ChainBuilder(spec).build(); }

PlainChain::PlainChain(const PipelineSpec& spec) : spec_(spec) {
  std::vector<V> weights;
  for (std::size_t s = 0; s < spec.devices.size(); ++s) weights.emplace_back(kWidth, initial_weight(s));
  weights_.assign(spec.replicas, weights);
  sums_.assign(spec.replicas, std::vector<V>(spec.devices.size(), V(kWidth)));
}

V PlainChain::run(const V& x, std::int64_t device_iterations) {
  std::size_t num_stages = spec_.devices.size(), groups = spec_.input_grouping.num_groups(spec_.replicas);
  V result;
  for (std::int64_t m = 0; m < device_iterations * spec_.accumulation; ++m) {
    for (std::size_t r = 0; r < spec_.replicas; ++r) {
      std::size_t group = spec_.input_grouping.group_of(r, spec_.replicas);
      std::vector<V> values{V(kWidth)};
      std::copy_n(x.data() + (static_cast<std::size_t>(m) * groups + group) * kWidth, kWidth, values[0].data());
      for (std::size_t s = 0; s < num_stages; ++s) {
        values.emplace_back(kWidth);
        multiply(values[s].data(), weights_[r][s].data(), values[s + 1].data());
      }
      result.insert(result.end(), values.back().begin(), values.back().end());
      V gradient(kWidth, 1.0f);
      for (std::size_t s = num_stages; spec_.training && s-- > 0;) {
        multiply_add(gradient.data(), values[s].data(), sums_[r][s].data());
        multiply(gradient.data(), weights_[r][s].data(), gradient.data());
      }
    }
    if (spec_.training && (m + 1) % spec_.accumulation == 0) update();
  }
  return result;
}

void PlainChain::update() {
  const ReplicaGrouping& grouping = spec_.weight_grouping;
  for (std::size_t s = 0; s < spec_.devices.size(); ++s) {
    for (std::size_t g = 0; g < grouping.num_groups(spec_.replicas); ++g) {
      V total(kWidth, 0.0f);
      for (std::size_t r : grouping.members(g, spec_.replicas)) {
        for (std::int64_t i = 0; i < kWidth; ++i) total[i] += sums_[r][s][i];
      }
      for (std::size_t r : grouping.members(g, spec_.replicas)) {
        sums_[r][s] = total;
        apply(weights_[r][s].data(), sums_[r][s].data());
      }
    }
  }
}

V chain_inputs(std::int64_t count, int variant) {
  V x(static_cast<std::size_t>(count * kWidth));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i + 1) + static_cast<float>(variant));
  return x;
}

V read(const Executor& executor, const std::string& name, std::size_t count) {
  V values(count);
  executor.read_variable(name, std::as_writable_bytes(std::span(values)));
  return values;
}

void write(Executor& executor, const std::string& name, const V& values) {
  executor.write_variable(name, std::as_bytes(std::span(values)));
}

V run_all(Executor& executor, const V& x, std::int64_t device_iterations) {
  const Program& program = executor.program();
  auto blocks = static_cast<std::size_t>(device_iterations * program.gradient_accumulation) * program.replicas;
  V y(blocks * kWidth, -7.0f);
  executor.run({.device_iterations = device_iterations,
                .gradient_accumulation = program.gradient_accumulation,
                .inputs = {x.data()},
                .outputs = {{.data = y.data()}}});
  return y;
}

}  // namespace aspen::testing
