#include "example_programs.h"

#include <cstring>

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/ops/replica/replica.h"
#include "aspen/program_file/program_file.h"

namespace aspen::testing {
namespace {

std::shared_ptr<Program> program_of(const OpDef& def, const Example& example, const Backend& backend) {
  Graph graph;
  Builder b(graph);
  std::vector<Value*> inputs;
  for (const TensorType& type : example.inputs) {
    inputs.push_back(graph.add_input(fmt::format("x{}", inputs.size()), type));
  }
  const Op& op = *b.emit(def.name(), std::move(inputs), example.attrs);
  CompileOptions options;
  if (op.is("replica_slice") || op.is("replica_write")) {
    options.replicas = static_cast<std::size_t>(op.attrs<ReplicaAttrs>().replicas);
  }
  for (const Value* output : op.outputs()) {
    graph.add_output(fmt::format("y{}", output->index()), op.output(output->index()));
  }
  return compile(graph, options, backend);
}

// second: where the second layer is placed.
std::string network(const char* type, const char* second) {
  return fmt::format(R"(graph @main(%x: {0}[4, 6], %t: {0}[4, 3]) {{
    variable %a: {0}[6, 8] parameter trainable
    variable %b: {0}[8, 3] parameter trainable
    variable %mean: {0}[8] buffer
    %0: {0}[4, 8] = dot(%x, %a)
    %1: {0}[4, 8] = relu(%0)
    %2: {0}[8] = reduce_sum(%1) {{axes=[0]}} no_grad
    %3: {0}[8] = add(%mean, %2) no_grad
    assign(%mean, %3) no_grad
    %4: {0}[4, 8] = sub(%1, %mean)
    %5: {0}[4, 8] = dropout(%4) {{p=0.5, stream=1}}
    %6: {0}[4, 3] = dot(%5, %b){1}
    %7: {0}[4, 3] = sub(%6, %t){1}
    %8: {0}[4, 3] = mul(%7, %7){1}
    %9: {0}[] = reduce_sum(%8) {{axes=[0, 1]}}{1}
    %10: {0}[] = loss(%9){1}
    return loss: %10, hidden: %5
  }})",
                     type, second);
}

// A recurrent layer over the rows of x, a branch and a call.
std::string controlled_network() {
  return R"(graph @main(%x: f32[4, 6], %t: f32[6]) {
    variable %a: f32[6, 6] parameter trainable
    variable %b: f32[6, 6] parameter trainable
    %h0: f32[1, 6] = full() {dtype=f32, shape=[1, 6], value=0.5}
    %h: f32[1, 6], %hs: f32[4, 6] = loop(%h0, %x, %a) {count=4, carried=1, sliced=1, body=graph @turn(%h: f32[1, 6], %x: f32[6], %a: f32[6, 6]) {
        %0: f32[1, 6] = dot(%h, %a)
        %1: f32[1, 6] = add(%0, %x)
        %2: f32[1, 6] = tanh(%1)
        %3: f32[1, 6] = dropout(%2) {p=0.25, stream=3}
        %4: f32[6] = reshape(%3) {shape=[6]}
        return h: %3, hs: %4
      }}
    %0: f32[4, 6] = call(%hs, %b) {stream=1, body=graph @layer(%x: f32[4, 6], %b: f32[6, 6]) {
        %0: f32[4, 6] = dot(%x, %b)
        %1: f32[4, 6] = relu(%0)
        return y: %1
      }}
    %1: f32[6] = reduce_sum(%0) {axes=[0]}
    %2: f32[6] = sub(%1, %t)
    %3: f32[] = reduce_sum(%2) {axes=[0]}
    %4: f32[] = full() {dtype=f32, shape=[], value=0}
    %5: bool[] = gt(%3, %4)
    %6: f32[6] = cond(%5, %2, %h) {then_body=graph @then(%x: f32[6], %h: f32[1, 6]) {
        %0: f32[6] = mul(%x, %x)
        return y: %0
      }, else_body=graph @else(%x: f32[6], %h: f32[1, 6]) {
        %0: f32[6] = reshape(%h) {shape=[6]}
        %1: f32[6] = sub(%0, %x)
        return y: %1
      }}
    %7: f32[] = reduce_sum(%6) {axes=[0]}
    %8: f32[] = loss(%7)
    return loss: %8, hidden: %hs
  })";
}

// Integers that the host has in 64 bits, read in both stages and in the backward pass.
std::string classifier() {
  return R"(graph @main(%ids: i32[4] wide, %t: i32[4] wide) {
    variable %a: f32[2, 6] parameter trainable
    variable %b: f32[6, 2] parameter trainable
    %0: f32[4, 6] = take(%a, %ids) {axis=0}
    %1: f32[4, 6] = tanh(%0)
    %2: f32[4, 2] = dot(%1, %b) device 1 stage 1
    %3: f32[4, 2] = log_softmax(%2) {axis=1} device 1 stage 1
    %4: f32[], %5: f32[] = nll(%3, %t, _) device 1 stage 1
    %6: f32[] = loss(%4) device 1 stage 1
    %7: i32[4] = add(%ids, %t) device 1 stage 1
    return loss: %6, hidden: %1, sum: %7
  })";
}

CompileOptions training() {
  CompileOptions options{.training = true};
  options.optimizer.kind = "adam";
  options.optimizer.groups.push_back({.parameters = {"a", "b"}});
  options.gradient_accumulation = 4;
  return options;
}

}  // namespace

std::vector<ExampleProgram> op_programs(const Backend& backend) {
  std::vector<ExampleProgram> programs;
  for (const OpDef* def : op_registry().all()) {
    for (std::size_t i = 0; i < def->examples().size(); ++i) {
      const Example& example = def->examples()[i];
      try {
        programs.push_back({.name = fmt::format("{} {}", def->name(), i),
                            .program = program_of(*def, example, backend),
                            .range = {example.low, example.high, example.int_low, example.int_high}});
      } catch (const Error&) {
        // Not alone, or not on this backend.
      }
    }
  }
  return programs;
}

std::vector<ExampleProgram> training_programs(const Backend& backend) {
  std::vector<ExampleProgram> programs;
  const auto add = [&](const char* name, const std::string& text, const CompileOptions& options) {
    auto graph = parse_graph(text);
    programs.push_back({.name = name, .program = compile(*graph, options, backend)});
  };
  const std::string alone = network("f32", ""), in_stages = network("f32", " device 1 stage 1");
  add("one device", alone, training());
  add("pipeline", in_stages, training());
  CompileOptions options = training();
  options.replicas = 2;
  add("replicas", alone, options);
  add("replicas of a pipeline", in_stages, options);
  options.locations.optimizer_state = {.sharded = true, .min_shard_elements = 1};
  options.optimizer.max_grad_norm = 0.5;
  add("sharded state", alone, options);
  options.locations.weights = {.sharded = true, .min_shard_elements = 1};
  add("sharded weights", alone, options);
  options = training();
  options.execution = Execution::kPhased;
  options.locations.optimizer_state.off_device = true;
  options.liveness = Liveness::kOffDeviceAfterForward;
  add("phases", network("f32", " device 1 phase 1"), options);
  options = training();
  options.stochastic_rounding = true;
  add("stochastic rounding", network("f16", ""), options);
  options = training();
  options.automatic_loss_scaling = AutomaticLossScaling{};
  options.optimizer.scales_loss = true;
  add("automatic loss scaling", network("f16", ""), options);
  options = training();
  options.holds_inputs = true;
  add("held inputs", alone, options);
  add("loop, branch and call", controlled_network(), training());
  add("wide integers", classifier(), training());
  return programs;
}

ExampleCall::ExampleCall(const Program& program, const Range& range, std::uint64_t seed) : program_(program) {
  const auto batches =
      static_cast<std::size_t>(program.gradient_accumulation) * program.input_grouping.num_groups(program.replicas);
  for (const ProgramTensor& input : program.inputs) {
    auto& bytes = inputs_.emplace_back();
    for (std::size_t i = 0; i < batches; ++i) {
      const HostTensor tensor = random_tensor(input.type, range, seed++);
      const auto* data = static_cast<const std::byte*>(tensor.data());
      bytes.insert(bytes.end(), data, data + input.type.bytes());
    }
  }
}

std::vector<std::vector<std::byte>> ExampleCall::run(Executor& executor) {
  RunRequest request{.gradient_accumulation = program_.gradient_accumulation};
  for (const auto& input : inputs_) request.inputs.push_back(input.data());
  std::vector<std::vector<std::byte>> outputs;
  for (const ProgramTensor& output : program_.outputs) {
    outputs.emplace_back(output.type.bytes() * program_.replicas *
                         static_cast<std::size_t>(program_.gradient_accumulation));
  }
  for (auto& output : outputs) request.outputs.push_back({.data = output.data()});
  executor.run(request);
  return outputs;
}

void fill_variables(Executor& executor) {
  for (const ProgramVariable& variable : executor.program().variables) {
    if (variable.name != "a" && variable.name != "b") continue;
    const HostTensor tensor = random_tensor(variable.type, {}, variable.name == "a" ? 1 : 2);
    executor.write_variable(variable.name,
                            {static_cast<const std::byte*>(tensor.data()), executor.host_bytes(variable.name)});
  }
  std::vector<float> settings(kNumSettings, 0.0f);
  settings[kLearningRate] = 0.01f;
  settings[kLossScaling] = 1;
  settings[kMomentum] = 0.9f;
  settings[kDampening] = 0.999f;
  settings[kEpsilon] = 1e-4f;
  for (const ProgramVariable& variable : executor.program().variables) {
    if (!variable.name.starts_with("settings___")) continue;
    executor.write_variable(variable.name, std::as_bytes(std::span(settings)));
  }
  executor.set_random_state(42, 7);
}

Sections stored(const Executor& executor, const Backend& backend) {
  Sections file;
  store_program(file, executor.program(), backend);
  store_state(file, state_of(executor));
  return Sections::decode(file.encode());
}

}  // namespace aspen::testing
