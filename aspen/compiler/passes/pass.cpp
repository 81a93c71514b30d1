#include "aspen/compiler/passes/pass.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"

namespace aspen {
namespace {

void check_conditions(const Graph& graph, const std::vector<Condition>& conditions, std::string_view pass,
                      const char* when) {
  for (const Condition& condition : conditions) {
    std::string problem = condition.violation(graph);
    if (!problem.empty()) {
      throw InternalError("condition \"{}\" does not hold {} pass {}: {}", condition.name, when, pass, problem);
    }
  }
}

// Writes "<folder>/<graph>.<number>.<pass>.ir", where a graph "a/b" is in a folder of its own.
void dump(const Graph& graph, std::size_t number, std::string_view pass) {
  const char* folder = std::getenv("ASPEN_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  auto path = std::filesystem::path(folder) / fmt::format("{}.{:02}.{}.ir", graph.name(), number, pass);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path);
  file << to_text(graph);
  if (!file) throw UserError("ASPEN_DUMP: cannot write {}.", path.string());
}

void verify_after(const Graph& graph, std::string_view pass) {
  try {
    verify(graph);
  } catch (const Error&) {
    rethrow_with_context(fmt::format("after pass {}", pass));
  }
}

void run_pass(Graph& graph, const Pass& pass, const PassContext& context) {
  using Clock = std::chrono::steady_clock;
  bool checks = context.options.verify_passes;
  if (checks) check_conditions(graph, pass.expects, pass.name, "before");
  auto start = Clock::now();
  pass.function(graph, context);
  std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
  if (context.options.timed) {
    context.options.timed(fmt::format("passes/{}", pass.name),
                          std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed));
  }
  log::debug("pass {}: {:.2f} ms, {} ops", pass.name, elapsed.count(), graph.ops().size());
  if (!checks) return;
  verify_after(graph, pass.name);
  check_conditions(graph, pass.ensures, pass.name, "after");
}

}  // namespace

void run_passes(Graph& graph, std::span<const Pass> passes, const PassContext& context) {
  const auto& skipped = context.options.skip_passes;
  dump(graph, 0, "begin");
  std::size_t number = 0;
  for (const Pass& pass : passes) {
    ++number;
    if (std::find(skipped.begin(), skipped.end(), pass.name) != skipped.end()) {
      log::debug("pass {}: skipped", pass.name);
    } else {
      run_pass(graph, pass, context);
      dump(graph, number, pass.name);
    }
    if (context.options.progress) {
      context.options.progress(static_cast<double>(number) / static_cast<double>(passes.size() + 1));
    }
  }
  if (!context.options.verify_passes && !passes.empty()) verify_after(graph, passes.back().name);
}

}  // namespace aspen
