// Optimisers that run on the device. Change a value between two calls with setLearningRate and hand the optimiser to
// Executor::setOptimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace poptorch::optim {

// What the device needs to know of an optimiser; made by the classes below.
class Optimizer {
 public:
  struct Group {
    std::vector<at::Tensor> parameters;
    bool keeps_velocity = false;
    bool nesterov = false;
    double lr = 0, weight_decay = 0;
    double first = 0, second = 0;  // momentum and dampening, or the two betas
    double epsilon = 0;
  };

  const std::string& kind() const { return kind_; }
  const std::vector<Group>& groups() const { return groups_; }
  double lossScaling() const { return loss_scaling_; }
  double maxGradNorm() const { return max_grad_norm_; }
  bool biasCorrection() const { return bias_correction_; }

  void setLearningRate(double lr);  // of all groups
  void setLearningRate(std::size_t group, double lr);
  // Multiplies the loss before the backward pass and divides the gradients after it: for half precision. A model
  // wrapped with a scaling of 1 keeps it.
  void setLossScaling(double scaling);

 protected:
  Optimizer(std::string kind, double loss_scaling, double max_grad_norm, bool bias_correction);
  void add(Group group);
  // A setting of all groups, given again with one of them.
  void checkShared(const char* name, double given, double known) const;

 private:
  std::string kind_;
  std::vector<Group> groups_;
  double loss_scaling_, max_grad_norm_;
  bool bias_correction_;
};

struct SGDOptions {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double loss_scaling = 1;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<at::Tensor> parameters, const SGDOptions& options = {});
  // The loss scaling is one for all groups: another one is an error.
  void addGroup(std::vector<at::Tensor> parameters, const SGDOptions& options);
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double loss_scaling = 1;
  bool bias_correction = true;
  double max_grad_norm = std::numeric_limits<double>::infinity();
};

// Weight decay is added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
  // Loss scaling, bias correction and the maximal norm are one for all groups: others are an error.
  void addGroup(std::vector<at::Tensor> parameters, const AdamOptions& options);

 protected:
  Adam(const std::string& kind, std::vector<at::Tensor> parameters, const AdamOptions& options);
};

// Weight decay shrinks the weights themselves.
class AdamW : public Adam {
 public:
  static AdamOptions decayed() {  // the defaults: as Adam's, with a weight decay of 0.01
    AdamOptions options;
    options.weight_decay = 0.01;
    return options;
  }
  explicit AdamW(std::vector<at::Tensor> parameters, const AdamOptions& options = decayed());
};

}  // namespace poptorch::optim
