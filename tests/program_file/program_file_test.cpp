// Programs that are stored go on as if they had not been.
#include "aspen/program_file/program_file.h"

#include <gtest/gtest.h>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/ops/host_call/host_call.h"
#include "aspen/program_file/program_check.h"
#include "tests/support/backends.h"

namespace aspen::testing {
namespace {

// Two layers with dropout between them, the second on another device if asked for.
std::string network(bool pipelined) {
  const char* second = pipelined ? " device 1 stage 1" : "";
  return fmt::format(R"(graph @main(%x: f32[4, 6], %t: f32[4, 3]) {{
    variable %a: f32[6, 8] parameter trainable
    variable %b: f32[8, 3] parameter trainable
    %0: f32[4, 8] = dot(%x, %a)
    %1: f32[4, 8] = relu(%0)
    %2: f32[4, 8] = dropout(%1) {{p=0.5, stream=1}}
    %3: f32[4, 3] = dot(%2, %b){0}
    %4: f32[4, 3] = sub(%3, %t){0}
    %5: f32[4, 3] = mul(%4, %4){0}
    %6: f32[] = reduce_sum(%5) {{axes=[0, 1]}}{0}
    %7: f32[] = loss(%6){0}
    return loss: %7
  }})",
                     second);
}

CompileOptions training() {
  CompileOptions options{.training = true};
  options.optimizer.kind = "adam";
  options.optimizer.groups.push_back({.parameters = {"a", "b"}});
  options.gradient_accumulation = 4;
  return options;
}

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = first + 0.01f * static_cast<float>(i % 37) - 0.1f;
  return made;
}

void fill(Executor& executor) {
  for (const ProgramVariable& variable : executor.program().variables) {
    if (variable.name != "a" && variable.name != "b") continue;
    const auto values = numbers(static_cast<std::size_t>(variable.type.numel()), variable.name == "a" ? 0.1f : -0.2f);
    executor.write_variable(variable.name, std::as_bytes(std::span(values)));
  }
  std::vector<float> settings(kNumSettings, 0.0f);
  settings[kLearningRate] = 0.01f;
  settings[kLossScaling] = 1;
  settings[kMomentum] = 0.9f;
  settings[kDampening] = 0.999f;
  settings[kEpsilon] = 1e-8f;
  for (const ProgramVariable& variable : executor.program().variables) {
    if (variable.name.starts_with("settings___")) {
      executor.write_variable(variable.name, std::as_bytes(std::span(settings)));
    }
  }
  executor.set_random_state(42, 0);
}

std::vector<float> train(Executor& executor, int updates) {
  const auto x = numbers(4 * 4 * 6, 0.3f), t = numbers(4 * 4 * 3, 0.5f);
  std::vector<float> losses;
  for (int i = 0; i < updates; ++i) {
    std::vector<float> loss(4);
    executor.run({.gradient_accumulation = 4, .inputs = {x.data(), t.data()}, .outputs = {{.data = loss.data()}}});
    losses.insert(losses.end(), loss.begin(), loss.end());
  }
  return losses;
}

std::shared_ptr<Program> compiled(const std::string& text, const CompileOptions& options, const Backend& backend) {
  auto graph = parse_graph(text);
  return compile(*graph, options, backend);
}

Sections stored(const Executor& executor, const Backend& backend) {
  Sections file;
  store_program(file, executor.program(), backend);
  store_state(file, state_of(executor));
  return Sections::decode(file.encode());
}

TEST(ProgramFile, ALoadedProgramGoesOnBitForBit) {
  for (const auto& backend : built_backends()) {
    for (bool pipelined : {false, true}) {
      Executor original(compiled(network(pipelined), training(), *backend));
      fill(original);
      train(original, 3);
      const Sections file = stored(original, *backend);
      Executor loaded(std::shared_ptr<Program>(load_program(file, *backend)));
      restore(loaded, load_state(file));
      EXPECT_EQ(train(original, 3), train(loaded, 3)) << backend->name() << pipelined;
      EXPECT_EQ(state_of(original).variables, state_of(loaded).variables) << backend->name() << pipelined;
    }
  }
}

TEST(ProgramFile, SayWhoWroteThem) {
  const auto backend = built_backends().front();
  Sections file;
  store_program(file, *compiled(network(false), training(), *backend), *backend);
  EXPECT_EQ(origin_of(file).version, aspen_version());
  EXPECT_EQ(origin_of(file).backend, backend->fingerprint());
}

TEST(ProgramFile, AnotherBackendIsRefused) {
  const auto backends = built_backends();
  if (backends.size() < 2) GTEST_SKIP() << "only one backend was built";
  Sections file;
  store_program(file, *compiled(network(false), training(), *backends[0]), *backends[0]);
  try {
    load_program(file, *backends[1]);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(std::string(error.what()),
              fmt::format("it was compiled for \"reference\", and this machine is \"{}\"; compile the model here, or "
                          "for both with ASPEN_CPU_ISA set to what they share",
                          backends[1]->fingerprint()));
  }
}

// -- functions on the host ------------------------------------------------------------------------------------------
class Doubled final : public HostFunction {
 public:
  explicit Doubled(bool can_be_stored) : can_be_stored_(can_be_stored) {}
  std::string name() const override { return "doubled"; }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    for (int i = 0; i < 3; ++i) static_cast<float*>(outputs[0])[i] = 2 * static_cast<const float*>(inputs[0])[i];
  }
  std::optional<std::vector<std::byte>> stored() const override {
    if (!can_be_stored_) return std::nullopt;
    return std::vector<std::byte>{std::byte{2}};
  }

 private:
  bool can_be_stored_;
};

std::shared_ptr<Program> calling(bool can_be_stored, const Backend& backend) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", {DType::kF32, {3}});
  HostCallAttrs attrs{.function = std::make_shared<Doubled>(can_be_stored)};
  attrs.outputs = "f32[3]";
  graph.add_output("y", b.emit("host_call", {x}, attrs)->output(0));
  return compile(graph, {}, backend);
}

TEST(ProgramFile, FunctionsOnTheHostAreMadeAgain) {
  const auto backend = built_backends().front();
  Sections file;
  store_program(file, *calling(true, *backend), *backend);
  int made = 0;
  const auto reader = [&](const std::string& name, std::span<const std::byte> bytes) {
    EXPECT_EQ(name, "doubled");
    EXPECT_EQ(bytes.size(), 1u);
    ++made;
    return std::make_shared<Doubled>(true);
  };
  Executor executor(std::shared_ptr<Program>(load_program(file, *backend, reader)));
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> y(3);
  executor.run({.inputs = {x.data()}, .outputs = {{.data = y.data()}}});
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(made, 1);
  EXPECT_THROW(load_program(file, *backend), FileError);
}

TEST(ProgramFile, AFunctionOfThisProcessAloneIsNamed) {
  const auto backend = built_backends().front();
  Sections file;
  try {
    store_program(file, *calling(false, *backend), *backend);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("doubled is a function of this process alone"), std::string::npos);
  }
}

// -- programs from outside ------------------------------------------------------------------------------------------
std::string complaint(const std::function<void(Program&)>& change) {
  const auto backend = built_backends().front();
  auto program = compiled(network(true), training(), *backend);
  check_program(*program);
  change(*program);
  try {
    check_program(*program);
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

Instruction& first(Program& program) { return program.step[0].instructions[0]; }

TEST(ProgramCheck, KeepsAProgramWithinItsBounds) {
  EXPECT_EQ(complaint([](Program& p) { p.replicas = 0; }), "there are 0 replicas");
  EXPECT_EQ(complaint([](Program& p) { p.step[0].device = 9; }), "there is no device 9");
  EXPECT_EQ(complaint([](Program& p) { p.step[0].lane = 9; }), "there is no lane 9");
  EXPECT_EQ(complaint([](Program& p) { p.lanes[0].depth = 0; }), "a lane has a depth of 0");
  EXPECT_EQ(complaint([](Program& p) { p.step[0].waits.push_back({.task = 0}); }), "task 0 waits for task 0 in vain");
  EXPECT_EQ(complaint([](Program& p) { p.step[0].waits.push_back({.task = 99, .lag = 1}); }), "there is no task 99");
  EXPECT_EQ(complaint([](Program& p) { p.step[0].inputs.at(0).input = 5; }), "there is no input 5");
  EXPECT_EQ(complaint([](Program& p) { p.variables[0].places.clear(); }), "variable \"a\" has no place");
  EXPECT_NE(complaint([](Program& p) { p.variables[0].type.shape = {7, 8}; }), "");
  EXPECT_NE(complaint([](Program& p) { p.inputs[0].type.shape = {-4, 6}; }), "");
  EXPECT_NE(complaint([](Program& p) { p.inputs[0].type.shape = {1ll << 40, 1ll << 40}; }), "");
}

TEST(ProgramCheck, KeepsEveryOpToItsRule) {
  EXPECT_NE(complaint([](Program& p) { first(p).outputs[0].offset = 1ull << 40; }).find("outside of its arena"),
            std::string::npos);
  EXPECT_NE(complaint([](Program& p) { first(p).outputs[0].offset = ~0ull; }), "");
  EXPECT_NE(complaint([](Program& p) { first(p).outputs[0].offset += 4; }), "");
  EXPECT_NE(complaint([](Program& p) { first(p).inputs[0].absent = true; }), "");
  EXPECT_NE(complaint([](Program& p) { first(p).inputs.pop_back(); }), "");
  EXPECT_NE(complaint([](Program& p) { first(p).request.outputs[0].shape.push_back(1); }), "");
  EXPECT_NE(complaint([](Program& p) { first(p).request.op = "no_such_op"; }), "");
}

}  // namespace
}  // namespace aspen::testing
