// The tensors a wrapped model is called with: what may be one, and that those of later calls are as those of the first.
#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "poptorch/error.h"

namespace poptorch {

class CallInputs {
 public:
  // Those of the call that a model is compiled for. names: of the arguments, as the user knows them. An Error if one
  // cannot be an input.
  CallInputs(std::vector<std::string> names, const std::vector<at::Tensor>& tensors);

  // An Error if one has another shape or type than in the first call. Warns, once for each, of those that lose
  // something on their way or have to be copied.
  void check(const std::vector<at::Tensor>& tensors);
  // What is wrong with a call that has something else for an input.
  Error mismatch(std::size_t index, const std::string& given) const;

 private:
  struct Input {
    std::string name;
    std::vector<std::int64_t> shape;
    c10::ScalarType type;
  };
  void mention(const std::string& fact);

  std::vector<Input> inputs_;
  std::mutex mutex_;  // calls come from several threads
  std::set<std::string> mentioned_;
};

}  // namespace poptorch
