// A compiled graph with its executor, driven by plain vectors: what the compiler tests talk to.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/runtime/executor.h"

namespace aspen::testing {

inline const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

class Session {
 public:
  explicit Session(const std::string& text, const CompileOptions& options = {})
      : graph_(parse_graph(text)), accumulation_(options.gradient_accumulation) {
    program_ = compile(*graph_, options, reference());
    // A missing wait shows only between threads.
    executor_ = std::make_unique<Executor>(program_, ExecutorOptions{.thread_per_device = true});
  }

  Graph& graph() { return *graph_; }
  const Program& program() const { return *program_; }
  Executor& executor() { return *executor_; }

  template <class T>
  void set(const std::string& name, const std::vector<T>& values) {
    executor_->write_variable(name, std::as_bytes(std::span(values)));
  }

  template <class T = float>
  std::vector<T> get(const std::string& name) {
    for (const auto& variable : program_->variables) {
      if (variable.name != name) continue;
      std::vector<T> values(static_cast<std::size_t>(variable.type.numel()));
      executor_->read_variable(name, std::as_writable_bytes(std::span(values)));
      return values;
    }
    ADD_FAILURE() << "no variable " << name;
    return {};
  }

  // Runs one call; inputs hold all micro-batches. Returns each output with every micro-batch, in float.
  std::vector<std::vector<float>> run(const std::vector<std::vector<float>>& inputs, std::int64_t device_iterations = 1,
                                      HostOutput mode = {}) {
    RunRequest request{.device_iterations = device_iterations, .gradient_accumulation = accumulation_};
    for (const auto& input : inputs) request.inputs.push_back(input.data());
    std::vector<std::vector<float>> results;
    for (const auto& output : program_->outputs) {
      std::int64_t count = device_iterations * accumulation_;
      if (mode.mode == OutputMode::kFinal || mode.mode == OutputMode::kSum) count = 1;
      if (mode.mode == OutputMode::kEveryN) count /= mode.period;
      results.emplace_back(static_cast<std::size_t>(output.type.numel() * count), -77.0f);
    }
    for (auto& result : results) {
      HostOutput output = mode;
      output.data = result.data();
      request.outputs.push_back(output);
    }
    executor_->run(request);
    return results;
  }

 private:
  std::unique_ptr<Graph> graph_;
  std::int64_t accumulation_;
  std::shared_ptr<Program> program_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace aspen::testing
