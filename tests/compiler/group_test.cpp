// Groups of pointwise ops: the bits of the same ops one by one, in any shape, on any backend and number of threads.
#include <limits>

#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"
#include "aspen/compiler/tiles.h"
#include "harness.h"
#include "tests/support/backends.h"
#include "tests/support/host_tensor.h"

namespace aspen::testing {
namespace {

// Chains with several results, operands of several types, and every kind of broadcasting to the shape.
std::string network(const std::string& shape, const std::string& row, const std::string& column) {
  return fmt::format(
      R"(graph @main(%x: f32[{0}], %y: f32[{0}], %n: i32[{0}], %row: f32[{1}], %column: f32[{2}], %one: f32[]) {{
    %0: f32[{0}] = mul(%x, %row)
    %1: f32[{0}] = add(%0, %column)
    %2: f32[{0}] = tanh(%1)
    %3: bool[{0}] = lt(%2, %y)
    %4: f32[{0}] = cast(%n) {{dtype=f32}}
    %5: f32[{0}] = div(%4, %one)
    %6: f32[{0}] = select(%3, %5, %2)
    %7: f32[{0}] = exp(%6)
    %8: i32[{0}] = add(%n, %n)
    %9: f32[{0}] = sub(%7, %x)
    return a: %2, b: %3, c: %9, d: %8
  }})",
      shape, row, column);
}

struct Run {
  std::vector<HostTensor> outputs;
  std::size_t groups = 0;
};

Run run(const std::string& text, const Backend& backend, std::int64_t min_elements, std::size_t threads) {
  auto graph = parse_graph(text);
  std::vector<HostTensor> inputs;
  for (const auto& input : graph->inputs()) inputs.push_back(random_tensor(input->type(), {}, inputs.size() + 1));
  std::shared_ptr<const Program> program = compile(*graph, {.min_group_elements = min_elements}, backend);
  Run result;
  for (const auto& op : graph->ops()) result.groups += op->is("group") ? 1 : 0;
  Executor executor(program, {.num_threads = threads});
  RunRequest request;
  for (const HostTensor& input : inputs) request.inputs.push_back(input.data());
  for (const ProgramTensor& output : program->outputs) result.outputs.emplace_back(output.type);
  for (HostTensor& output : result.outputs) request.outputs.push_back({.data = output.data()});
  executor.run(request);
  return result;
}

void expect_same_bits(const std::string& text, std::size_t groups) {
  for (const auto& backend : built_backends()) {
    SCOPED_TRACE(backend->name());
    const Run apart = run(text, *backend, std::numeric_limits<std::int64_t>::max(), 1);
    EXPECT_EQ(apart.groups, 0u);
    for (std::size_t threads : {1, 2, 7}) {
      const Run together = run(text, *backend, 1, threads);
      EXPECT_EQ(together.groups, groups);
      for (std::size_t i = 0; i < apart.outputs.size(); ++i) {
        EXPECT_TRUE(apart.outputs[i] == together.outputs[i]) << "output " << i << " on " << threads << " threads";
      }
    }
  }
}

TEST(Group, BitsAreThoseOfTheOpsOneByOne) {
  struct Case {
    const char *shape, *row, *column;
  };
  for (const Case& test :
       {Case{"7", "7", "1"}, Case{"4097", "1", "4097"}, Case{"40000", "40000", "1"}, Case{"50, 3", "3", "50, 1"},
        Case{"9, 5000", "5000", "9, 1"}, Case{"2, 6, 37, 41", "6, 1, 1", "2, 1, 37, 1"},
        Case{"4, 1, 8192", "8192", "4, 1, 1"}, Case{"3, 100, 100", "100, 1", "3, 1, 100"}, Case{"1, 1", "1", "1, 1"}}) {
    SCOPED_TRACE(test.shape);
    expect_same_bits(network(test.shape, test.row, test.column), 1);
  }
}

// Slices are read where they lie: parts of long rows, of short ones, every other element, along several axes at once.
TEST(Group, ReadsSlicesOfItsOperands) {
  struct Case {
    const char *operand, *starts, *ends, *steps, *shape, *row;
  };
  for (const Case& test :
       {Case{"20000", "5000", "15000", "1", "10000", "1"}, Case{"50, 96", "0, 32", "50, 64", "1, 1", "50, 32", "32"},
        Case{"50, 7", "1, 1", "50, 7", "1, 2", "49, 3", "49, 1"}, Case{"9001", "0", "9001", "3", "3001", "1"},
        Case{"40, 3, 5000", "0, 1, 0", "40, 2, 5000", "1, 1, 1", "40, 1, 5000", "5000"},
        Case{"9, 8, 6, 50", "0, 3, 0, 5", "9, 7, 6, 45", "2, 1, 1, 1", "5, 4, 6, 40", "4, 1, 1"},
        Case{"6, 11, 70", "1, 0, 0", "6, 11, 70", "2, 5, 3", "3, 3, 24", "3, 1, 24"},
        Case{"3000, 5", "0, 2", "3000, 3", "1, 1", "3000, 1", "3000, 1"}}) {
    SCOPED_TRACE(test.operand);
    expect_same_bits(fmt::format(R"(graph @main(%x: f32[{0}], %y: f32[{4}], %n: i32[{0}], %row: f32[{5}]) {{
    %0: f32[{4}] = slice(%x) {{starts=[{1}], ends=[{2}], steps=[{3}]}}
    %1: i32[{4}] = slice(%n) {{starts=[{1}], ends=[{2}], steps=[{3}]}}
    %2: f32[{4}] = mul(%0, %row)
    %3: f32[{4}] = cast(%1) {{dtype=f32}}
    %4: f32[{4}] = add(%2, %y)
    %5: f32[{4}] = sub(%4, %0)
    %6: f32[{4}] = div(%3, %5)
    return a: %6, b: %2
  }})",
                                 test.operand, test.starts, test.ends, test.steps, test.shape, test.row),
                     1);
  }
}

// Halves of one operand, of which other tiles may still have to read.
TEST(Group, KeepsOperandsOfWhichSlicesAreRead) {
  expect_same_bits(R"(graph @main(%x: f32[64, 500]) {
    %0: f32[64, 500] = cumsum(%x) {axis=0}
    %1: f32[32, 500] = slice(%0) {starts=[32, 0], ends=[64, 500], steps=[1, 1]}
    %2: f32[32, 500] = slice(%0) {starts=[0, 0], ends=[64, 500], steps=[2, 1]}
    %3: f32[32, 500] = exp(%1)
    %4: f32[32, 500] = mul(%3, %2)
    %5: f32[32, 500] = cumsum(%4) {axis=0}
    return y: %5
  })",
                   1);
}

// A place that is taken over is written while other operands, or other tiles, are still to be read.
TEST(Group, ResultsTakeThePlacesOfOperands) {
  expect_same_bits(R"(graph @main(%x: f32[20000], %w: f32[20000]) {
    %0: f32[20000] = cumsum(%x) {axis=0}
    %1: f32[20000] = cumsum(%w) {axis=0}
    %2: f32[20000] = mul(%1, %1)
    %3: f32[20000] = sin(%0)
    %4: f32[20000] = add(%2, %0)
    %5: f32[20000] = sub(%3, %4)
    %6: f32[20000] = mul(%5, %0)
    %7: f32[20000] = cumsum(%6) {axis=0}
    %8: f32[20000] = cumsum(%3) {axis=0}
    return y: %7, z: %8
  })",
                   1);
}

TEST(Group, TakesNoMemoryForWhatPassesBetweenItsOps) {
  const char* chain = R"(graph @main(%x: f32[1000000]) {
    %0: f32[1000000] = sin(%x)
    %1: f32[1000000] = mul(%0, %x)
    %2: f32[1000000] = exp(%1)
    %3: f32[1000000] = add(%2, %x)
    return y: %3
  })";
  auto apart = parse_graph(chain), together = parse_graph(chain);
  const auto before = planned_bytes(*compile(*apart, {.skip_passes = {"group_elementwise"}}, reference()), 0);
  const auto after = planned_bytes(*compile(*together, {}, reference()), 0);
  EXPECT_LE(after, before - 2'500'000) << before;
}

TEST(Tiles, CoverTheShapeOnce) {
  for (const Shape& shape : {Shape{5}, Shape{4096}, Shape{10000}, Shape{3, 5000}, Shape{100, 7}, Shape{2, 3, 5, 7},
                             Shape{0, 3}, Shape{}, Shape{1, 1, 9000}}) {
    SCOPED_TRACE(to_string(shape));
    const Tiles tiles(shape, {{.strides = contiguous_strides(shape)}}, 4096);
    const auto offset = [&](Tiles::Place at) {
      std::int64_t of_operand = -1;
      tiles.offsets(at, &of_operand);
      return of_operand;
    };
    std::int64_t next = 0;
    Tiles::Place at;
    for (std::int64_t i = 0; i < tiles.count(); ++i, at = tiles.after(at)) {
      EXPECT_EQ(offset(at), next);
      EXPECT_EQ(offset(tiles.place(i)), next);
      next += numel(tiles.operand_shape(0, tiles.is_tail(at)));
    }
    EXPECT_EQ(next, numel(shape));
  }
}

TEST(Tiles, AreOfAboutOneSize) {
  // 3 rows of 3,136 elements, each with a number of its own: 1,056, 1,056 and 1,024 of them, no fourth tile of 64.
  const Tiles tiles({3, 3136}, {{.strides = {3136, 1}}, {.strides = {1, 0}}}, 1024);
  EXPECT_EQ(tiles.count(), 9);
  EXPECT_EQ(tiles.elements(false), 1056);
  EXPECT_EQ(tiles.elements(true), 1024);
  EXPECT_EQ(tiles.operand_shape(1, false), Shape{1});
  std::int64_t offsets[2];
  tiles.offsets(tiles.place(5), offsets);  // the last of the second row
  EXPECT_EQ(offsets[0], 3136 + 2 * 1056);
  EXPECT_EQ(offsets[1], 1);
}

TEST(Group, RefusesWhatIsNoGroup) {
  const auto refusal = [](const std::string& body) {
    try {
      parse_graph("graph @main(%x: f32[4]) {\n  %0: f32[4] = group(%x) {carried=0, body=graph @group(%x: f32[4]) {\n" +
                  body + "    }}\n  return y: %0\n}");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("%0: f32[4] = cumsum(%x) {axis=0}\n return y: %0\n").find("neither pointwise"), std::string::npos);
  EXPECT_NE(refusal("return y: %x\n").find("operand as it is"), std::string::npos);
  const std::string slice = "%0: f32[4] = slice(%x) {starts=[0], ends=[4], steps=[1]}\n";
  EXPECT_NE(refusal(slice + "return y: %0\n").find("operand as it is"), std::string::npos);
  EXPECT_NE(refusal("%0: f32[4] = neg(%x)\n %1: f32[4] = slice(%0) {starts=[0], ends=[4], steps=[1]}\n"
                    "%2: f32[4] = neg(%1)\n return y: %2\n")
                .find("nor a slice of an operand"),
            std::string::npos);
}

}  // namespace
}  // namespace aspen::testing
