// Session: a wrapped model from its first compilation to its end, and the rules of its weights: who copies them where,
// and when. The executors of both languages hold one and call it one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aspen/ipus/device_lease.h"
#include "poptorch/model/device_optimizer.h"
#include "poptorch/model/host_weights.h"
#include "poptorch/model/model.h"

namespace poptorch {

class Session {
 public:
  // tensors: parameters and buffers of the module. turn: of the executor, for others who ask for its weights; they are
  // copied with `copy`, which calls copy_weights_to_host(). optimizer: of a training model; its state goes with the
  // weights.
  Session(bool training, std::vector<at::Tensor> tensors, HostWeights::Turn turn, std::function<void()> copy,
          std::shared_ptr<DeviceOptimizer> optimizer);
  ~Session();  // leaves behind what the device has learnt
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A tensor of the graph that is kept from each call.
  struct Anchor {
    std::string name, tensor;
    OutputRequest output;
  };
  // What one call runs.
  struct Call {
    std::int64_t device_iterations = 1, gradient_accumulation = 1;
    OutputRequest output;  // of every output
    bool logs_cycles = false;
    std::vector<Anchor> anchors = {};
    std::optional<std::int64_t> device = {};  // to be taken while attached
  };

  // Takes a compiled model over. From now on the module's tensors follow the device.
  void adopt(std::shared_ptr<Model> model, const Call& call);
  bool is_compiled() const { return model_ != nullptr; }
  bool is_attached() const { return is_compiled() && model_->is_attached(); }
  Model& compiled(const char* who) const;  // an Error that names `who` if there is none

  using ShouldStop = std::function<bool()>;
  // Takes a device for a model that is about to be compiled; see aspen::DeviceLease. What happens to it if the model is
  // not compiled after all is said by release_device().
  void reserve(std::optional<std::int64_t> device, const ShouldStop& should_stop);
  void release_device();  // unless attached

  // Takes the device and uploads weights. Replicas keep their own values of a buffer that is, on the host, as the first
  // one left it.
  void attach(const ShouldStop& should_stop = nullptr);
  // Saves everything to the host and frees the device; attach() continues.
  void detach();
  // Saves everything to the host and releases the program; adopt() begins anew.
  void destroy();

  // Everything that another process needs to go on with the model as it is now: see Model::store. An inference model
  // takes over what trainers of its weights have learnt first.
  void save(aspen::Sections& file, bool with_random_state);
  // The weights that a model took from a file go to the tensors of the module. Of a model that adopt() has just taken.
  void take_weights_of_file();

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const std::function<bool()>& should_stop);

  // Of the latest call: a copy of its own.
  at::Tensor anchored(const std::string& name) const;
  // Of a compiled model: all that can be anchored.
  std::vector<std::string> tensor_names() const;

  // Of the latest call; nothing before it.
  aspen::TransferTimes transfers() const { return is_compiled() ? model_->transfers() : aspen::TransferTimes(); }
  // Its cycles, of the first replica: those of a clock of 1.85 GHz in the time that was measured without transfers.
  std::optional<std::int64_t> cycles() const;
  std::size_t num_replicas() const { return is_compiled() ? model_->num_replicas() : 1; }

  // Brings the weights of trainers of the same tensors to the host: a capture does not ask for them.
  void sync_sources() const;
  void copy_weights_to_host();
  bool copy_weights_to_host_if_needed();  // whether it did
  void copy_weights_to_device();
  void copy_buffers_to_device(const std::vector<std::string>& names);

  // Of a training model; nullptr otherwise.
  const std::shared_ptr<HostWeights>& weights() const { return weights_; }

 private:
  void announce();
  void upload(PrivateBuffers private_buffers);
  void refresh();
  void save_to_host();
  void keep_scalars();
  at::Tensor repeated(const at::Tensor& scalar, const OutputRequest& output) const;

  bool training_;
  std::vector<at::Tensor> tensors_;
  std::shared_ptr<HostWeights> weights_;
  std::shared_ptr<DeviceOptimizer> optimizer_;  // nullptr unless training
  bool is_announced_ = false;                   // as a source of weights
  std::shared_ptr<Model> model_;
  std::unique_ptr<aspen::DeviceLease> lease_;
  Call call_;
  std::map<std::string, at::Tensor> anchored_;
  // Inference: the trainers that the tensors had when they were wrapped, and the version of each that was uploaded
  // last.
  std::vector<std::pair<std::shared_ptr<HostWeights>, std::uint64_t>> followed_;
};

}  // namespace poptorch
