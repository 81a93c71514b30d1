// Operators of one's own, written in C++. A shared library that includes this header registers them when it is loaded;
// models call them by name: customOp here, poptorch.custom_op in Python. docs/custom-ops.md shows how.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace poptorch {

// What a call gives an operator besides tensors: numbers, texts and lists of them, by name.
class CustomOpAttributes {
 public:
  using Value = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                             std::vector<std::string>>;
  using Map = std::map<std::string, Value>;

  CustomOpAttributes() = default;
  // A ValueError if a name or a text has characters beyond ASCII.
  CustomOpAttributes(std::initializer_list<Map::value_type> values) : CustomOpAttributes(Map(values)) {}
  explicit CustomOpAttributes(Map values);

  bool has(const std::string& name) const { return values_.count(name) > 0; }
  // An Error if there is none, or one of another type: an int is no float.
  template <class T>
  const T& get(const std::string& name) const {
    const T* value = std::get_if<T>(&find(name));
    if (value == nullptr) fail_type(name);
    return *value;
  }
  template <class T>
  T get(const std::string& name, T otherwise) const {
    return has(name) ? get<T>(name) : std::move(otherwise);
  }
  const Map& values() const { return values_; }

 private:
  const Value& find(const std::string& name) const;
  [[noreturn]] void fail_type(const std::string& name) const;

  Map values_;
};

// Shape and type of a tensor.
struct TensorSpec {
  std::vector<std::int64_t> shape;
  c10::ScalarType dtype = c10::ScalarType::Float;

  bool operator==(const TensorSpec&) const = default;
};

// What a gradient is made from: the operands of a call, its results, and the gradients by the results (zeros where
// none arrives).
struct CustomOpGradient {
  std::vector<at::Tensor> inputs, outputs, output_gradients;
  CustomOpAttributes attributes;
};

struct CustomOp {
  std::string name, domain;
  std::int64_t version = 1;

  // The results for operands like these, asked for when a model is captured. Left out: results are as the example
  // outputs of the call say.
  std::function<std::vector<TensorSpec>(const std::vector<TensorSpec>& inputs, const CustomOpAttributes& attributes)>
      shapes;

  // Computes the results into tensors that are there already. All are contiguous and on the host. Called by the threads
  // of the program, without any lock: several at a time if there are replicas.
  std::function<void(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
                     const CustomOpAttributes& attributes)>
      kernel;

  // The gradient by each input, an undefined tensor where there is none. Called once, when a training model is
  // compiled, on tensors without data: what it does with them becomes a part of the model. It is made of torch's
  // functions, of customOp, or of both. Left out: an Error where a gradient is wanted.
  std::function<std::vector<at::Tensor>(const CustomOpGradient& call)> gradient;
};

// Makes an operator known as long as it lives: a variable at namespace scope of a library, for instance.
class RegisteredCustomOp {
 public:
  explicit RegisteredCustomOp(CustomOp op);
  ~RegisteredCustomOp();
  RegisteredCustomOp(const RegisteredCustomOp&) = delete;
  RegisteredCustomOp& operator=(const RegisteredCustomOp&) = delete;

 private:
  std::shared_ptr<const CustomOp> op_;
};

// Calls a registered operator; for use in a forward. The results have the shapes and types of the examples, whose
// values do not matter. Outside a captured model: zeros.
std::vector<at::Tensor> customOp(const std::vector<at::Tensor>& inputs, const std::string& name,
                                 const std::string& domain, std::int64_t domain_version,
                                 const std::vector<at::Tensor>& example_outputs,
                                 const CustomOpAttributes& attributes = {});

}  // namespace poptorch
