// Runs the pass tests beside the passes: aspen/compiler/passes/test/<pass>.ir. A file holds cases:
//
//   // case: what_it_shows
//   // passes: canonicalise, remove_dead
//   // options: gradient_accumulation=2          (optional, see run_on_text.h)
//   graph @main(...) { ... }
//   // expect:
//   graph @main(...) { ... }
//
// or, in place of the expected graph, "// error: text that the error contains". Expected graphs may leave out default
// attributes: both sides are compared in printed form.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/passes/run_on_text.h"

namespace aspen {
namespace {

struct Case {
  std::string name, passes, options, input, expected, error;
};

bool take_directive(const std::string& line, const std::string& name, std::string& value) {
  std::string prefix = "// " + name + ":";
  if (!line.starts_with(prefix)) return false;
  value = line.substr(std::min(line.size(), prefix.size() + 1));
  return true;
}

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  std::string line, value;
  std::string* text = nullptr;
  while (std::getline(file, line)) {
    if (take_directive(line, "case", value)) {
      cases.push_back({.name = value});
      text = &cases.back().input;
    } else if (cases.empty()) {
      continue;  // a heading
    } else if (take_directive(line, "passes", value)) {
      cases.back().passes = value;
    } else if (take_directive(line, "options", value)) {
      cases.back().options = value;
    } else if (take_directive(line, "error", value)) {
      cases.back().error = value;
    } else if (take_directive(line, "expect", value)) {
      text = &cases.back().expected;
    } else {
      *text += line + "\n";
    }
  }
  return cases;
}

std::filesystem::path folder() { return std::filesystem::path(ASPEN_SOURCE_DIR) / "aspen/compiler/passes/test"; }

std::string run(const Case& test) {
  static const auto backend = make_reference_backend();
  return run_passes_on_text(test.input, split_words(test.passes, ", "), parse_compile_options(test.options),
                            backend.get());
}

class PassFile : public ::testing::TestWithParam<std::string> {};

TEST_P(PassFile, GivesTheExpectedGraphs) {
  auto cases = read_cases(folder() / (GetParam() + ".ir"));
  ASSERT_FALSE(cases.empty()) << "no cases in " << GetParam() << ".ir";
  for (const Case& test : cases) {
    SCOPED_TRACE(GetParam() + ".ir, case " + test.name);
    ASSERT_NE(test.expected.empty(), test.error.empty()) << "a case expects a graph or an error";
    try {
      std::string result = run(test);
      EXPECT_TRUE(test.error.empty()) << "expected an error with \"" << test.error << "\", got\n" << result;
      if (test.error.empty()) {
        EXPECT_EQ(result, to_text(*parse_graph(test.expected)));
      }
    } catch (const InternalError& e) {
      ADD_FAILURE() << e.what();  // a bug of ours never passes for an expected error
    } catch (const Error& e) {
      EXPECT_FALSE(test.error.empty()) << e.what();
      EXPECT_NE(std::string(e.what()).find(test.error), std::string::npos) << e.what();
    }
  }
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) names.emplace_back(pass.name);
  return names;
}

// One file per pass: a pass without tests fails here.
INSTANTIATE_TEST_SUITE_P(Passes, PassFile, ::testing::ValuesIn(pass_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace aspen
