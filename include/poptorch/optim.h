// Optimisers that run on the device. Change a number between two calls and hand the optimiser to
// Executor::setOptimizer. An attribute that is given to the constructor is variable and may be changed that way; one
// that is left out has its default and is built into the program, unless variableAttributes() says otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace poptorch {

class OptimizerState;

namespace optim {

enum class Kind : std::uint8_t { SGD, Adam, AdamW, RMSprop, LAMB };

// The attributes of a parameter group; those that its kind of optimiser does not have are not looked at.
struct Numbers {
  double lr = 1e-3;
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double velocity_scaling = 1;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double alpha = 0.99;
  bool centered = false;
  double max_weight_norm = 65500;
  bool amsgrad = false;   // not supported: an error when a model is wrapped
  bool maximize = false;  // ignored, with a warning

  bool operator==(const Numbers&) const = default;
};

struct Group : Numbers {
  std::vector<at::Tensor> parameters;
};

// What is one for all groups.
struct Shared {
  // Multiplies the loss before the backward pass and divides the gradients after it: for half precision.
  double loss_scaling = 1;
  // Gradients are scaled down together to this norm.
  double max_grad_norm = std::numeric_limits<double>::infinity();
  bool bias_correction = true;      // Adam, AdamW, LAMB: divides the moments by 1 - beta^step
  bool use_tf_variant = false;      // RMSprop as in TensorFlow
  bool use_combined_accum = false;  // SGD: one tensor for accumulator and velocity; the same result
  at::ScalarType accum_type = at::kFloat;
  at::ScalarType velocity_accum_type = at::kFloat;
  at::ScalarType first_order_momentum_accum_type = at::kFloat;
  at::ScalarType second_order_momentum_accum_type = at::kFloat;
};

// The attributes of an optimiser that may be changed after compilation, through setOptimizer. To be chosen before it.
class VariableAttributes {
 public:
  VariableAttributes() = default;
  VariableAttributes(std::set<std::string> variable, std::set<std::string> allowed);

  // ArgumentError for names that the optimiser does not have.
  bool isConstant(const std::string& attribute) const;
  void markAsConstant(const std::string& attribute);
  void markAsVariable(const std::string& attribute);

  const std::set<std::string>& variable() const { return variable_; }
  const std::set<std::string>& allowed() const { return allowed_; }

 private:
  void check(const std::string& attribute) const;

  std::set<std::string> variable_, allowed_;
};

using Tensors = std::map<std::string, at::Tensor>;

// What it takes to continue training elsewhere, beside the weights. Tensors are copies of their own.
struct StateDict {
  struct Group : Numbers {
    std::size_t num_parameters = 0;
  };
  Kind kind = Kind::SGD;  // from a file: Adam for AdamW too, whose state is the same
  std::vector<Group> groups;
  // Moments, velocities, accumulators and steps, and the numbers that were sent to the device, by name. None before the
  // model has been on a device.
  std::optional<Tensors> ipu_state, ipu_param;

  // torch.load of Python reads the file as well: the dictionary that state_dict() gives there.
  void save(const std::string& file) const;
  // Not of what torch.save of Python has made: torch's reader for C++ does not know all that its writer uses.
  static StateDict load(const std::string& file);
};

// A value: a copy has the numbers and the state, and is no longer connected to the executor that trains with the
// original.
class Optimizer {
 public:
  Optimizer(const Optimizer& other);
  Optimizer& operator=(const Optimizer& other);
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;
  ~Optimizer();

  Kind kind() const { return kind_; }
  // Change a number here, then call setOptimizer.
  std::vector<Group>& groups() { return groups_; }
  const std::vector<Group>& groups() const { return groups_; }
  Shared& shared() { return shared_; }
  const Shared& shared() const { return shared_; }
  VariableAttributes& variableAttributes() { return variable_attributes_; }
  const VariableAttributes& variableAttributes() const { return variable_attributes_; }

  void setLearningRate(double lr);  // of all groups
  void setLearningRate(std::size_t group, double lr);
  void setLossScaling(double scaling) { shared_.loss_scaling = scaling; }

  // Reads from the device what has changed there since the last time. After the executor is gone: what it left.
  StateDict stateDict() const;
  // Takes over the numbers at once; the device gets numbers and state before the next call.
  void loadStateDict(const StateDict& state);

  const std::shared_ptr<OptimizerState>& deviceState() const { return state_; }  // for the executor

 protected:
  explicit Optimizer(Kind kind);
  // Of the options below, by their type. The first group settles what is one for all.
  template <class Options>
  void begin(std::vector<at::Tensor> parameters, const Options& options);
  template <class Options>
  void add(std::vector<at::Tensor> parameters, const Options& options);

 private:
  Kind kind_;
  Numbers defaults_;  // of groups that do not say otherwise
  std::vector<Group> groups_;
  Shared shared_;
  VariableAttributes variable_attributes_;
  std::shared_ptr<OptimizerState> state_;
};

// Options: what is left out has its default, and in addGroup the value that was given to the optimiser. Those below the
// empty line are one for all groups: another value in addGroup is an error.

struct SGDOptions {
  std::optional<double> lr;  // 0.01; always variable
  std::optional<double> momentum, dampening, weight_decay;
  std::optional<bool> nesterov, maximize;
  std::optional<double> velocity_scaling;  // needs use_combined_accum

  std::optional<double> loss_scaling;
  std::optional<bool> use_combined_accum;
  std::optional<at::ScalarType> accum_type, velocity_accum_type;  // float16 or float32
  std::optional<double> max_grad_norm;
};

// Stochastic gradient descent with momentum.
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<at::Tensor> parameters, const SGDOptions& options = {});
  void addGroup(std::vector<at::Tensor> parameters, const SGDOptions& options = {});
};

struct AdamOptions {
  std::optional<double> lr;                        // 0.001
  std::optional<std::pair<double, double>> betas;  // 0.9, 0.999; written {{0.8, 0.99}}
  std::optional<double> eps, weight_decay;         // 1e-8; 0, AdamW: 0.01
  std::optional<bool> amsgrad, maximize;

  std::optional<double> loss_scaling;
  std::optional<bool> bias_correction;
  std::optional<at::ScalarType> accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type;
  std::optional<double> max_grad_norm;
};

// Weight decay is added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
  void addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
};

// Weight decay shrinks the weights themselves.
class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
  void addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
};

struct RMSpropOptions {
  std::optional<double> lr;          // 0.01
  std::optional<double> alpha, eps;  // 0.99; 1e-8
  std::optional<double> weight_decay, momentum;
  std::optional<bool> centered;  // the same in all groups
  std::optional<bool> maximize;

  std::optional<double> loss_scaling;
  std::optional<at::ScalarType> accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type;
  // The mean square starts at ones, eps is inside the root, and the learning rate in the momentum's buffer.
  std::optional<bool> use_tf_variant;
};

class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<at::Tensor> parameters, const RMSpropOptions& options = {});
  void addGroup(std::vector<at::Tensor> parameters, const RMSpropOptions& options = {});
};

struct LAMBOptions {
  std::optional<double> lr;                        // 0.001
  std::optional<std::pair<double, double>> betas;  // 0.9, 0.999; written {{0.8, 0.99}}
  std::optional<double> eps, weight_decay;         // 1e-8; 0.01
  std::optional<double> max_weight_norm;           // 65500

  std::optional<bool> bias_correction;
  std::optional<double> loss_scaling;
  std::optional<at::ScalarType> accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type;
};

// Layer-wise adaptive moments (You et al., 2020, "Large Batch Optimization for Deep Learning").
class LAMB : public Optimizer {
 public:
  explicit LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& options = {});
  void addGroup(std::vector<at::Tensor> parameters, const LAMBOptions& options = {});
};

}  // namespace optim
}  // namespace poptorch
