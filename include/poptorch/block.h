// Blocks: which ops of a forward belong together. The strategy of the options gives each block its stage and virtual
// IPU. Outside a captured model blocks have no effect.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace poptorch {

// The name and the virtual IPU of a block. A block without a name is "0", "1", ... in the order they start; the same
// name is the same block. An IPU that is not given follows from the strategy.
struct BlockLabel {
  BlockLabel() = default;
  template <std::integral Integer>
  BlockLabel(Integer ipu) : ipu_id(ipu) {}
  BlockLabel(std::string user) : user_id(std::move(user)) {}
  BlockLabel(const char* user) : user_id(user) {}
  BlockLabel(std::optional<std::string> user, std::optional<std::int64_t> ipu)
      : user_id(std::move(user)), ipu_id(ipu) {}
  std::string toString() const;  // BeginBlock(user_id=a, ipu_id=1)

  std::optional<std::string> user_id;
  std::optional<std::int64_t> ipu_id;
};

// The ops captured while it lives belong to this block. At its end there is no block: an op after it must be in another
// one.
class Block {
 public:
  explicit Block(const BlockLabel& label = {});  // Block("a"), Block(1)
  Block(const std::string& user_id, std::int64_t ipu_id);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // A block that lasts until the next one starts.
  static void start(const BlockLabel& label = {});
  static void start(const std::string& user_id, std::int64_t ipu_id);
  // At the top of forward: blocks without a name are "0", "1", ... from here.
  static void useAutoId();
};

// BlockFunction(f, "a", 1): a function like f whose body is a block.
template <class Function, class... Label>
auto BlockFunction(Function function, Label... label) {
  return
      [function = std::move(function), label = BlockLabel(std::move(label)...)](auto&&... arguments) -> decltype(auto) {
        const Block block(label);
        return function(std::forward<decltype(arguments)>(arguments)...);
      };
}

// What a module has that begins a block.
class BlockStart {
 public:
  explicit BlockStart(BlockLabel label) : label_(std::move(label)) {}
  virtual ~BlockStart();
  const std::optional<BlockLabel>& label() const { return label_; }  // none after removeBlocks
  void annotate(const BlockLabel& label);                            // an Error if it begins a block already
  void remove() { label_.reset(); }

 protected:
  void start() const;

 private:
  std::optional<BlockLabel> label_;
};

namespace detail {

// The forward of a module; of one whose forward is overloaded or a template, as torch::nn::Sequential's, the one from
// tensor to tensor.
template <class Module, class = void>
struct ForwardOf {
  using Type = at::Tensor (Module::*)(const at::Tensor&);
};
template <class Module>
struct ForwardOf<Module, std::void_t<decltype(&Module::forward)>> {
  using Type = decltype(&Module::forward);
};

// A module in front of `module`: it starts the block and calls module's forward. Modules of torch's C++ library run no
// hooks, and their forward is not virtual, so a module cannot be given a block in place. Parameters, buffers and
// children are those of `module`, under the same names; members of its own are behind module().
template <class Module, class Forward = typename ForwardOf<Module>::Type, class Base = torch::nn::Module>
class BlockModuleImpl;

template <class Module, class Base, class Result, class... Arguments>
class BlockModuleBase : public Base, public BlockStart {
 public:
  BlockModuleBase(std::shared_ptr<Module> module, const BlockLabel& label)
      : BlockStart(label), module_(std::move(module)) {
    for (const auto& entry : module_->named_parameters(/*recurse=*/false)) {
      this->register_parameter(entry.key(), entry.value(), entry.value().requires_grad());
    }
    for (const auto& entry : module_->named_buffers(/*recurse=*/false)) {
      this->register_buffer(entry.key(), entry.value());
    }
    for (const auto& entry : module_->named_children()) this->register_module(entry.key(), entry.value());
  }
  Result forward(Arguments... arguments) {
    start();
    return module_->forward(std::forward<Arguments>(arguments)...);
  }
  const std::shared_ptr<Module>& module() const { return module_; }

  void train(bool on = true) override {
    Base::train(on);
    module_->train(on);
  }
  void pretty_print(std::ostream& stream) const override {
    if (label()) stream << label()->toString() << " ";
    module_->pretty_print(stream);
  }

 private:
  std::shared_ptr<Module> module_;
};

template <class Module, class Base, class Owner, class Result, class... Arguments>
class BlockModuleImpl<Module, Result (Owner::*)(Arguments...), Base>
    : public BlockModuleBase<Module, Base, Result, Arguments...> {
  using BlockModuleBase<Module, Base, Result, Arguments...>::BlockModuleBase;
};

template <class Module, class Base, class Owner, class Result, class... Arguments>
class BlockModuleImpl<Module, Result (Owner::*)(Arguments...) const, Base>
    : public BlockModuleBase<Module, Base, Result, Arguments...> {
  using BlockModuleBase<Module, Base, Result, Arguments...>::BlockModuleBase;
};

template <class Holder>
using ModuleIn = std::remove_cvref_t<decltype(*std::declval<Holder&>())>;

template <class Module>
std::shared_ptr<Module> pointer_to(const std::shared_ptr<Module>& module) {
  return module;
}
template <class Holder>
auto pointer_to(const Holder& module) {
  return module.ptr();
}

}  // namespace detail

// The type that BeginBlock makes of torch::nn::Linear, to declare a member of.
template <class Holder>
using BlockModule = torch::nn::ModuleHolder<detail::BlockModuleImpl<detail::ModuleIn<Holder>>>;

// BeginBlock(torch::nn::Linear(3, 4), "a", 1): a module that does the same; when it is called a block starts, which
// lasts until the next one starts. An Error if the module begins a block already.
template <class Holder, class... Label>
auto BeginBlock(const Holder& module, Label... label) {
  const BlockLabel made(std::move(label)...);
  if constexpr (std::is_base_of_v<BlockStart, detail::ModuleIn<const Holder>>) {
    detail::pointer_to(module)->annotate(made);
    return module;
  } else {
    using Made = detail::BlockModuleImpl<detail::ModuleIn<const Holder>>;
    return torch::nn::ModuleHolder<Made>(std::make_shared<Made>(detail::pointer_to(module), made));
  }
}

// Takes the blocks off again that BeginBlock gave to a module and those in it.
template <class Holder>
void removeBlocks(const Holder& module) {
  for (const auto& child : module->modules()) {
    if (auto* start = dynamic_cast<BlockStart*>(child.get())) start->remove();
  }
}

}  // namespace poptorch
