// Runs graphs op by op: one without tasks as its meaning says, one with tasks as devices would. Knows nothing of the
// memory plan or the runtime, so it can vouch for what the passes have done.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen::testing {

using Bytes = std::vector<std::byte>;

// Without tasks, variables change when a section ends. With tasks, an assign writes at once, on its own device; other
// devices see it after the next update. What is kept off the devices they share.
class Machine {
 public:
  explicit Machine(const Graph& graph);

  // Runs the ops of a section in the order of the list; returns the outputs of the step, if it is one.
  std::vector<Bytes> run(Section section, const std::vector<Bytes>& inputs);

  // As its home holds it.
  const Bytes& variable(const std::string& name) const;
  void set(const std::string& name, const Bytes& bytes);

 private:
  std::int64_t device_of(const Op& op) const;
  // Whose copy of a variable a device reads and writes.
  static std::int64_t memory_of(const Variable& variable, std::int64_t device);
  const Bytes* read(const Value* value, std::int64_t device, const std::map<const Value*, Bytes>& values) const;
  void run(const Op& op, std::map<const Value*, Bytes>& values) const;

  const Graph& graph_;
  bool has_tasks_;
  std::set<std::int64_t> devices_;
  std::map<std::pair<const Variable*, std::int64_t>, Bytes> memory_;
  std::map<const Variable*, std::int64_t> home_;
};

}  // namespace aspen::testing
