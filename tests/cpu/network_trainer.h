// Networks compiled for the cpu backend and trained in any way of using devices: the captured ones of
// tests/cpu/networks, which tests/models/test_many_devices.py has cut into four stages, or others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/runtime/executor.h"

namespace aspen::testing {

inline constexpr const char* kNetworks[] = {"tutorial", "resnet18", "transformer", "lstm"};

// A way to run a network: how many of its four stages share a device, and the options.
struct Way {
  std::string name;
  std::int64_t stages_per_device = 1;
  std::function<void(CompileOptions&)> configure = [](CompileOptions&) {};
};

// Many ways with the same result as one device.
std::vector<Way> ways();

class NetworkTrainer {
 public:
  NetworkTrainer(const std::string& network, const Way& way, const ExecutorOptions& options);
  NetworkTrainer(std::unique_ptr<Graph> network, const Way& way, const ExecutorOptions& options);

  // One call with the same inputs as every other.
  void run() { executor_->run(request_); }
  // Instructions of the step that run an op.
  std::ptrdiff_t count(const std::string& op) const;
  // Two calls: everything they leave behind, by name.
  std::map<std::string, std::vector<std::byte>> train();

 private:
  std::vector<std::byte> draw(const TensorType& type, std::int64_t count, double scale = 1);
  void write_variables();
  void make_request();

  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Program> program_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
  RunRequest request_;
  std::int64_t accumulation_ = 0;
  std::mt19937 random_{9};
};

}  // namespace aspen::testing
