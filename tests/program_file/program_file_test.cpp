// What is refused, and how it is said; functions on the host.
#include "aspen/program_file/program_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/ops/host_call/host_call.h"
#include "aspen/program_file/program_check.h"
#include "example_programs.h"
#include "tests/support/backends.h"

namespace aspen::testing {
namespace {

std::shared_ptr<Program> pipeline(const Backend& backend) { return training_programs(backend)[1].program; }

TEST(ProgramFile, SayWhoWroteThem) {
  const auto backend = built_backends().front();
  Sections file;
  store_program(file, *pipeline(*backend), *backend);
  EXPECT_EQ(origin_of(file).version, aspen_version());
  EXPECT_EQ(origin_of(file).backend, backend->fingerprint());
}

TEST(ProgramFile, AnotherBackendIsRefused) {
  const auto backends = built_backends();
  if (backends.size() < 2) GTEST_SKIP() << "only one backend was built";
  Sections file;
  store_program(file, *pipeline(*backends[0]), *backends[0]);
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

std::string refusal(const Sections& file, const Backend& backend, const ProgramLimits& limits = {}) {
  try {
    load_program(file, backend, nullptr, limits);
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

// The section as docs/program-format.md says: text with its length, a number, text with its length.
void set_origin(Sections& file, const ProgramOrigin& origin) {
  std::vector<std::byte> bytes;
  const auto add = [&](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  const auto add_text = [&](const std::string& text) {
    const std::uint64_t size = text.size();
    add(&size, sizeof(size));
    add(text.data(), text.size());
  };
  add_text(origin.version);
  add(&origin.ops, sizeof(origin.ops));
  add_text(origin.backend);
  file.set("origin", std::move(bytes));
}

TEST(ProgramFile, AnotherVersionIsRefused) {
  const auto backend = built_backends().front();
  Sections file;
  store_program(file, *pipeline(*backend), *backend);
  EXPECT_EQ(origin_of(file), current_origin(*backend));
  ProgramOrigin origin = current_origin(*backend);
  set_origin(file, origin);
  EXPECT_EQ(refusal(file, *backend), "");
  origin.version = "99.1.0";
  set_origin(file, origin);
  EXPECT_EQ(refusal(file, *backend),
            fmt::format("it was written by version 99.1.0, and this is {}; export the model again", aspen_version()));
  origin = current_origin(*backend);
  ++origin.ops;
  set_origin(file, origin);
  EXPECT_EQ(refusal(file, *backend),
            fmt::format("it was written by another build of version {}, with other ops; export the model again",
                        aspen_version()));
}

TEST(ProgramFile, MoreThanTheLimitsIsRefused) {
  const auto backend = built_backends().front();
  Sections file;
  store_program(file, *pipeline(*backend), *backend);
  EXPECT_EQ(refusal(file, *backend, {.memory = 1 << 20}), "");
  EXPECT_NE(refusal(file, *backend, {.memory = 1 << 10}).find("bytes of memory, and there are 1024"),
            std::string::npos);
  EXPECT_EQ(refusal(file, *backend, {.devices = 1}), "it is for 1 replicas of 2 devices; at most 1 work together");
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
  auto program = pipeline(*backend);
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

TEST(ProgramCheck, CountsMemoryBeforeItIsTaken) {
  for (std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0}}) {
    EXPECT_NE(complaint([&](Program& p) { p.devices[0].scratch_bytes = bytes; }).find("bytes of memory"),
              std::string::npos);
    EXPECT_NE(complaint([&](Program& p) { p.lanes[0].host_slot_bytes = bytes; }).find("bytes of memory"),
              std::string::npos);
  }
  EXPECT_NE(complaint([](Program& p) {
              p.lanes[0].depth = 1ll << 30, p.lanes[0].slot_bytes = 1 << 20;
            }).find("bytes of memory"),
            std::string::npos);
  EXPECT_NE(complaint([](Program& p) { p.replicas = 1ull << 40; }).find("work together"), std::string::npos);
}

TEST(ProgramCheck, LetsNobodyWaitForever) {
  EXPECT_EQ(complaint([](Program& p) { p.step[0].waits.push_back({.task = 0, .lag = -1}); }),
            "task 0 waits for task 0 in vain");
  EXPECT_EQ(complaint([](Program& p) { p.step[1].waits.at(0).in_all_replicas = true; }),
            "a step waits for all replicas");
  EXPECT_NE(complaint([](Program& p) { p.step[0].cost = std::nan(""); }), "");
  EXPECT_NE(complaint([](Program& p) { p.step[0].nanoseconds = -1; }), "");
  EXPECT_NE(complaint([](Program& p) { p.training = false; }), "");
}

TEST(ProgramCheck, EveryOutputComesFromOnePlace) {
  EXPECT_EQ(complaint([](Program& p) { p.outputs.push_back(p.outputs[0]); }), "output 2 comes from 0 places");
  EXPECT_EQ(complaint([](Program& p) { p.variable_outputs.push_back({.output = 0, .variable = 99}); }),
            "there is no variable 99");
  EXPECT_NE(complaint([](Program& p) {
              for (Task& task : p.step) {
                if (!task.outputs.empty()) task.outputs.push_back(task.outputs[0]);
              }
            }).find("comes from 2 places"),
            std::string::npos);
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
  EXPECT_NE(complaint([](Program& p) { first(p).spans_replicas = true; }).find("is taken for another"),
            std::string::npos);
  EXPECT_NE(complaint([](Program& p) { first(p).request.rounding.stream = 5; }).find("cannot round at random"),
            std::string::npos);
}

TEST(ProgramCheck, LeavesIntegersOf64BitsToInputs) {
  const auto widen = [](TensorType& type) {
    type.dtype = DType::kI64;
    if (!type.shape.empty()) type.shape.back() /= 2;
  };
  EXPECT_NE(complaint([&](Program& p) { widen(p.outputs.at(1).type); }).find("only inputs are"), std::string::npos);
  EXPECT_NE(complaint([&](Program& p) { widen(p.variables.at(0).type); }).find("only inputs are"), std::string::npos);
  EXPECT_NE(
      complaint([&](Program& p) { widen(first(p).request.inputs.at(0).type); }).find("`narrow` brings them to 32"),
      std::string::npos);
}

TEST(ProgramCheck, KeepsOperandsApart) {
  // A product, which cannot be written over what it reads.
  ASSERT_EQ(first(*pipeline(*built_backends().front())).request.op, "dot");
  const auto lies_over = [](Program& p) { first(p).outputs[0] = first(p).inputs[0] = p.step[0].inputs.at(0).to; };
  EXPECT_NE(complaint([&](Program& p) {
              Instruction& product = first(p);
              product.request.outputs[0] = product.request.inputs[0].type = {DType::kF32, {6, 6}};
              product.request.inputs[1].type = {DType::kF32, {6, 6}};
              lies_over(p);
            }),
            "");
  EXPECT_NE(complaint([](Program& p) { first(p).workspace = first(p).outputs[0]; }).find("lies over its workspace"),
            std::string::npos);
  EXPECT_NE(complaint([](Program& p) { first(p).workspace = {.bytes = 64, .absent = true}; }).find("is absent"),
            std::string::npos);
  EXPECT_NE(complaint([](Program& p) {
              const std::size_t bytes = first(p).outputs[0].bytes;
              p.devices[1].scratch_bytes += bytes;
              first(p).outputs[0] = {.arena = Arena::kScratch, .owner = 1, .bytes = bytes};
            }).find("works in the memory of device 1"),
            std::string::npos);
}

TEST(ProgramCheck, GuardsTheMemoryOfACall) {
  // A further input or output like an operand, and the place of it.
  const auto add_input = [](Program& p, const BufferRef& like, const TensorType& type) {
    p.inputs.push_back({"more", type});
    return BufferRef{.arena = Arena::kInputs, .owner = p.inputs.size() - 1, .bytes = like.bytes};
  };
  const auto add_output = [](Program& p, const BufferRef& like, const TensorType& type) {
    p.outputs.push_back({"more", type});
    return BufferRef{.arena = Arena::kOutputs, .owner = p.outputs.size() - 1, .bytes = like.bytes};
  };
  EXPECT_NE(complaint([&](Program& p) {
              first(p).outputs[0] = add_input(p, first(p).outputs[0], first(p).request.outputs[0]);
            }).find("an input is written to"),
            std::string::npos);
  EXPECT_NE(complaint([&](Program& p) {
              first(p).inputs[0] = {.arena = Arena::kInputs, .owner = 9, .bytes = first(p).inputs[0].bytes};
            }).find("there is no input 9"),
            std::string::npos);
  EXPECT_NE(complaint([&](Program& p) {
              first(p).outputs[0] = add_output(p, first(p).outputs[0], first(p).request.outputs[0]);
            }).find("by a task that does not give it"),
            std::string::npos);
  EXPECT_NE(complaint([&](Program& p) {
              p.has_transfers = false;
              for (Task& task : p.step) task.inputs.clear();
            }).find("without transfers"),
            std::string::npos);
  EXPECT_NE(complaint([&](Program& p) {
              Instruction& update = p.update.at(0).instructions.at(0);
              update.inputs[0] = add_input(p, update.inputs[0], update.request.inputs[0].type);
            }).find("reaches into the memory of a call"),
            std::string::npos);
  // Such memory is aligned like its own elements.
  EXPECT_NE(complaint([&](Program& p) {
              const TensorType& type = first(p).request.inputs[0].type;
              first(p).inputs[0] = add_input(p, first(p).inputs[0], {DType::kF16, {2 * type.numel()}});
            }).find("elements of type f32 lie in a tensor of type f16"),
            std::string::npos);
  EXPECT_NE(complaint([&](Program& p) {
              first(p).workspace = add_output(p, {.bytes = 64}, {DType::kF16, {32}});
            }).find("is memory of a call"),
            std::string::npos);
}

}  // namespace
}  // namespace aspen::testing
