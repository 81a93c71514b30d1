#include "tests/passes/random_graph.h"

#include <map>

#include "aspen/ops/build.h"
#include "aspen/ops/random/random.h"

namespace aspen::testing {
namespace {

const Shape kShape{2, 3};
const Shape kFlat{6};

class GraphMaker {
 public:
  explicit GraphMaker(std::uint64_t seed)
      : random_(seed), is_phased_(random_options(seed).execution == Execution::kPhased), b_(*graph_) {}

  std::unique_ptr<Graph> run() {
    add_places();
    add_variables();
    Value* x = graph_->add_input("x", {DType::kF32, kShape});
    for (std::int64_t i = 0; i < num_stages_; ++i) known_.push_back({x, 0});
    for (std::int64_t i = random_.between(3, 12); i > 0; --i) add_forward();
    update_buffer();
    b_.backward = true;
    for (std::int64_t i = random_.between(3, 12); i > 0; --i) add_backward();
    add_accumulators();
    b_.section = Section::kUpdate;
    b_.backward = false;
    add_update();
    return std::move(graph_);
  }

 private:
  struct Known {
    Value* value;
    std::int64_t stage;  // readers in the forward pass are in this one or a later one
  };

  // Stages in ascending order, each on a device of its own choice; one phase for every two stages. In phased execution
  // each op of a stage has one, except where the buffer is.
  void add_places() {
    num_stages_ = random_.between(1, 5);
    num_devices_ = random_.between(1, 4);
    for (std::int64_t i = 0; i < num_stages_; ++i) devices_.push_back(random_.between(0, num_devices_ - 1));
    buffer_stage_ = random_.between(0, num_stages_ - 1);
  }

  void place(std::int64_t stage) {
    bool moves = is_phased_ && stage != buffer_stage_;
    std::int64_t device = moves ? random_.between(0, num_devices_ - 1) : devices_[stage];
    b_.placement = {.device = device, .stage = stage, .phase = stage / 2};
  }

  // The last one whose results a stage may read in the forward pass: its own, or any of its phase.
  std::int64_t last_before(std::int64_t stage) const { return is_phased_ ? stage | 1 : stage; }

  void add_variables() {
    for (std::int64_t i = random_.between(1, 4); i > 0; --i) {
      TensorType type{DType::kF32, kShape};
      parameters_.push_back(graph_->add_variable(fmt::format("w{}", i), VariableKind::kParameter, type, true));
      parameters_.back()->initial = 0.1 * static_cast<double>(i);
    }
    buffer_ = graph_->add_variable("buffer", VariableKind::kBuffer, {DType::kF32, kShape});
    buffer_->initial = 0.7;
  }

  Value* pick(std::int64_t stage, std::int64_t last_stage) {
    std::int64_t kind = random_.between(0, 9);
    if (kind == 0) return parameters_[random_.between(0, std::ssize(parameters_) - 1)]->value.get();
    if (kind == 1) return build::full(b_, DType::kF32, kShape, 0.3);
    if (kind == 2 && stage == buffer_stage_) return buffer_->value.get();
    std::vector<Value*> choices;
    for (const Known& known : known_) {
      if (known.stage <= last_stage) choices.push_back(known.value);
    }
    return choices[random_.between(0, std::ssize(choices) - 1)];
  }

  Value* shaped(Value* value, const Shape& shape) {
    return value->shape() == shape ? value : build::reshape(b_, value, shape);
  }

  Value* combine(Value* x, Value* y) {
    switch (random_.between(0, 5)) {
      case 0: return build::unary(b_, "sin", x);
      case 1: return build::reshape(b_, x, kFlat);
      case 2: return build::add(b_, shaped(x, kFlat), shaped(y, kFlat));
      case 3:
        return build::mul(b_, shaped(x, kShape),
                          b_.make("random_uniform", {}, RandomAttrs{.shape = kShape, .stream = ++stream_}));
      default: return build::mul(b_, shaped(x, kShape), shaped(y, kShape));
    }
  }

  void add_forward() {
    std::int64_t stage = random_.between(0, num_stages_ - 1);
    place(stage);
    Value* x = pick(stage, last_before(stage));
    Value* result = combine(x, pick(stage, last_before(stage)));
    known_.push_back({result, stage});
    if (random_.between(0, 4) == 0) graph_->add_output("y", result);
  }

  void update_buffer() {
    if (random_.coin()) return;
    place(buffer_stage_);
    Value* sum = build::add(b_, buffer_->value.get(), shaped(pick(buffer_stage_, buffer_stage_), kShape));
    b_.emit("assign", {buffer_->value.get(), sum});
  }

  // Anything may be read from anywhere: the pass has to find a place for it.
  void add_backward() {
    std::int64_t stage = random_.between(0, num_stages_ - 1);
    place(stage);
    Value* x = pick(stage, num_stages_);
    Value* y = pick(stage, num_stages_);
    known_.push_back({combine(x, y), num_stages_});
  }

  void add_accumulators() {
    for (Variable* parameter : parameters_) {
      place(random_.between(0, num_stages_ - 1));
      placement_of_[parameter] = b_.placement;
      Variable* sum =
          graph_->add_variable("Accum___" + parameter->name, VariableKind::kAccumulator, {DType::kF32, kShape});
      Value* scaled = build::mul(b_, sum->value.get(), 0.5);
      Value* gradient = shaped(known_.back().value, kShape);
      b_.emit("assign", {sum->value.get(), build::add(b_, scaled, build::unary(b_, "sin", gradient))});
      accumulators_.push_back(sum);
    }
  }

  void add_update() {
    Variable* step = graph_->add_variable("Step___", VariableKind::kOptimizerState, {DType::kF32, {}});
    Value* norm = nullptr;
    for (std::size_t i = 0; i < parameters_.size() && random_.between(0, 3) > 0; ++i) {
      b_.placement = placement_of_.at(parameters_[i]);
      Value* part = build::unary(b_, "square_sum", accumulators_[i]->value.get());
      norm = norm == nullptr ? part : build::add(b_, norm, part);
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      b_.placement = placement_of_.at(parameters_[i]);
      Value* change = build::add(b_, accumulators_[i]->value.get(), step->value.get());
      if (norm != nullptr) change = build::mul(b_, change, norm);
      b_.emit("assign", {parameters_[i]->value.get(), build::sub(b_, parameters_[i]->value.get(), change)});
      b_.emit("assign", {accumulators_[i]->value.get(), build::full_like(b_, accumulators_[i]->value.get(), 0)});
    }
    b_.emit("assign", {step->value.get(), build::add(b_, step->value.get(), 1)});
  }

  RandomNumbers random_;
  bool is_phased_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Builder b_;
  std::int64_t num_stages_ = 0, num_devices_ = 0, buffer_stage_ = 0, stream_ = 0;
  std::vector<std::int64_t> devices_;  // by stage
  std::vector<Variable*> parameters_, accumulators_;
  std::map<const Variable*, Placement> placement_of_;
  Variable* buffer_ = nullptr;
  std::vector<Known> known_;
};

}  // namespace

std::unique_ptr<Graph> random_graph(std::uint64_t seed) { return GraphMaker(seed).run(); }

CompileOptions random_options(std::uint64_t seed) {
  RandomNumbers random(seed);
  CompileOptions options{.training = true, .gradient_accumulation = 64};
  options.execution = static_cast<Execution>(random.between(0, 2));
  options.liveness = static_cast<Liveness>(random.between(0, 3));
  options.recompute = static_cast<Recompute>(random.between(0, 3));
  options.separate_backward_phase = random.coin();
  options.locations.weights.off_device = random.coin();
  options.locations.optimizer_state.off_device = random.coin();
  options.locations.optimizer_state.min_elements = 1;
  options.locations.accumulators.off_device = random.coin();
  options.locations.activations.off_device = random.coin();
  if (random.coin()) options.min_group_elements = 1;
  return options;
}

}  // namespace aspen::testing
