// Recurrent layers. The inputs of all time steps are projected by one product; the steps themselves are a loop.
// Weights take the type of the input.
//   params: per layer and direction w_ih, w_hh, then b_ih, b_hh if there are biases, then w_hr if h is projected
#include "aspen/ops/random/random.h"
#include "poptorch/aten/support/loop.h"
#include "poptorch/aten/support/matrix.h"

namespace poptorch {
namespace {

struct Weights {
  Expr w_ih, w_hh;
  Value* b_ih = nullptr;
  Value* b_hh = nullptr;
  Value* w_hr = nullptr;
};

struct State {
  Expr h, c;  // c: LSTM only
};

Expr part(Expr gates, std::int64_t index, std::int64_t count) {
  std::int64_t size = gates.size(1) / count;
  return slice(gates, 1, index * size, (index + 1) * size);
}

Expr plus(Expr x, Value* bias) { return bias == nullptr ? x : x + expr(*x.b, bias); }

// One step of each kind. `projected` is x W_ih^T + b_ih.
// Gates i, f, g, o: c' = f c + i g, h' = o tanh(c'), then projected by w_hr
State lstm_step(Expr projected, State s, const Weights& w) {
  Builder& b = *projected.b;
  aspen::Op* op = b.emit("lstm_gates", {projected.v, dot(s.h, w.w_hh, false, true).v, w.b_hh, s.c.v});
  Expr h = expr(b, op->output(0)), c = expr(b, op->output(1));
  if (w.w_hr != nullptr) h = dot(h, expr(*h.b, w.w_hr), false, true);
  return {h, c};
}

// Gates r, z, n: n = tanh(x_n + r h_n), h' = (1 - z) n + z h
State gru_step(Expr projected, State s, const Weights& w) {
  Expr hidden = plus(dot(s.h, w.w_hh, false, true), w.b_hh);
  Expr r = sigmoid(part(projected, 0, 3) + part(hidden, 0, 3));
  Expr z = sigmoid(part(projected, 1, 3) + part(hidden, 1, 3));
  Expr n = tanh(part(projected, 2, 3) + r * part(hidden, 2, 3));
  return {n + z * (s.h - n), {}};
}

State tanh_step(Expr projected, State s, const Weights& w) {
  return {tanh(plus(projected + dot(s.h, w.w_hh, false, true), w.b_hh)), {}};
}

State relu_step(Expr projected, State s, const Weights& w) {
  return {relu(plus(projected + dot(s.h, w.w_hh, false, true), w.b_hh)), {}};
}

using Step = State (*)(Expr, State, const Weights&);

struct Run {
  Expr sequence;  // (T, N, H)
  State last;
};

Run run_direction(Expr x, State s, const Weights& w, Step step, bool backward) {
  const bool has_c = s.c.v != nullptr;
  LoopValues values{.carried = {s.h}, .rows = {linear(x, w.w_ih, w.b_ih)}, .fixed = {w.w_hh}};
  if (has_c) values.carried.push_back(s.c);
  for (Value* optional : {w.b_hh, w.w_hr}) {
    if (optional != nullptr) values.fixed.push_back(expr(*x.b, optional));
  }
  LoopResults run = repeat(*x.b, x.size(0), backward, values, [&](const LoopValues& now) {
    Weights inside{.w_hh = now.fixed[0]};
    std::size_t next = 1;
    if (w.b_hh != nullptr) inside.b_hh = now.fixed[next++].v;
    if (w.w_hr != nullptr) inside.w_hr = now.fixed[next++].v;
    State after = step(now.rows[0], {now.carried[0], has_c ? now.carried[1] : Expr{}}, inside);
    TurnResults results{.carried = {after.h}, .parts = {after.h}};
    if (has_c) results.carried.push_back(after.c);
    return results;
  });
  return {run.stacks[0], {run.carried[0], has_c ? run.carried[1] : Expr{}}};
}

class Parameters {
 public:
  Parameters(Call& call, DType dtype, std::int64_t sets) : call_(call), has_biases_(call.boolean("has_biases")) {
    for (Value* value : call.values("params")) values_.push_back(build::cast(call.b, value, dtype));
    std::size_t each = values_.size() / static_cast<std::size_t>(sets);
    projected_ = each == (has_biases_ ? 5u : 3u);
  }

  Weights next() {
    Weights w;
    w.w_ih = expr(call_, values_.at(next_++));
    w.w_hh = expr(call_, values_.at(next_++));
    if (has_biases_) w.b_ih = values_.at(next_++), w.b_hh = values_.at(next_++);
    if (projected_) w.w_hr = values_.at(next_++);
    return w;
  }

 private:
  Call& call_;
  bool has_biases_, projected_ = false;
  std::vector<Value*> values_;
  std::size_t next_ = 0;
};

struct Layers {
  Expr sequence;           // (T, N, H * directions)
  std::vector<Expr> h, c;  // last state per layer and direction, (1, N, H)
};

// h0, c0: (layers * directions, N, H)
Layers run_layers(Call& call, Expr x, Expr h0, Expr c0, Step step) {
  std::int64_t layers = call.integer("num_layers"), directions = call.boolean("bidirectional") ? 2 : 1;
  double p = call.boolean("train") ? call.number("dropout") : 0;
  Parameters parameters(call, x.dtype(), layers * directions);
  Layers result;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (layer > 0 && p > 0) {
      x = p == 1 ? x * 0.0 : expr(call, call.b.make("dropout", {x.v}, aspen::DropoutAttrs{p, call.new_stream()}));
    }
    std::vector<Expr> sides;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      std::int64_t row = layer * directions + direction;
      State start{select_row(h0, 0, row), c0.v == nullptr ? Expr{} : select_row(c0, 0, row)};
      Run run = run_direction(x, start, parameters.next(), step, direction == 1);
      sides.push_back(run.sequence);
      result.h.push_back(unsqueeze(run.last.h, 0));
      if (c0.v != nullptr) result.c.push_back(unsqueeze(run.last.c, 0));
    }
    x = concat(sides, 2);
  }
  result.sequence = x;
  return result;
}

Expr time_first(Call& call, Expr x) { return call.boolean("batch_first") ? transpose(x, {1, 0, 2}) : x; }

Expr input_sequence(Call& call) {
  Expr x = expr(call, call.value("input"));
  if (x.rank() != 3)
    throw UserError("[{}] takes 3 axes (time, batch, features), not shape {}.", call.name(), to_string(x.shape()));
  x = time_first(call, x);
  if (x.size(0) == 0) throw UserError("[{}] the sequence of shape {} has no steps.", call.name(), to_string(x.shape()));
  return x;
}

// lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
// bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
void lstm(Call& call) {
  Expr x = input_sequence(call);
  std::vector<Value*> hx = call.values("hx");
  if (hx.size() != 2) throw UserError("[lstm] {} initial states were given; expected h and c.", hx.size());
  auto state = [&](Value* value) { return expr(call, build::cast(call.b, value, x.dtype())); };
  Layers layers = run_layers(call, x, state(hx[0]), state(hx[1]), lstm_step);
  ScalarType type = call.dtype("input");
  call.result(time_first(call, layers.sequence).v, type);
  call.result(concat(layers.h, 0).v, type);
  call.result(concat(layers.c, 0).v, type);
}

// gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool
// bidirectional, bool batch_first) -> (Tensor, Tensor), rnn_tanh.input(...), rnn_relu.input(...)
Handler one_state(Step step) {
  return [step](Call& call) {
    Expr x = input_sequence(call);
    ScalarType type = call.dtype("input");
    Layers layers = run_layers(call, x, expr(call, operand(call, "hx", type)), {}, step);
    call.result(time_first(call, layers.sequence).v, type);
    call.result(concat(layers.h, 0).v, type);
  };
}

Weights cell_weights(Call& call, ScalarType type) {
  Weights w{expr(call, operand(call, "w_ih", type)), expr(call, operand(call, "w_hh", type))};
  if (call.has("b_ih")) w.b_ih = operand(call, "b_ih", type);
  if (call.has("b_hh")) w.b_hh = operand(call, "b_hh", type);
  return w;
}

// lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor,
// Tensor)
void lstm_cell(Call& call) {
  ScalarType type = call.dtype("input");
  Weights w = cell_weights(call, type);
  std::vector<Value*> hx = call.values("hx");
  auto state = [&](Value* value) { return expr(call, build::cast(call.b, value, graph_dtype(type))); };
  State s = lstm_step(linear(expr(call, call.value("input")), w.w_ih, w.b_ih), {state(hx.at(0)), state(hx.at(1))}, w);
  call.result(s.h.v, type);
  call.result(s.c.v, type);
}

// gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None), rnn_tanh_cell,
// rnn_relu_cell
Handler cell(Step step) {
  return [step](Call& call) {
    ScalarType type = call.dtype("input");
    Weights w = cell_weights(call, type);
    Expr projected = linear(expr(call, call.value("input")), w.w_ih, w.b_ih);
    call.result(step(projected, {expr(call, operand(call, "hx", type)), {}}, w).h.v, type);
  };
}

}  // namespace

void register_recurrent(HandlerTable& table) {
  table.add("aten::lstm.input", lstm);
  table.add("aten::gru.input", one_state(gru_step));
  table.add("aten::rnn_tanh.input", one_state(tanh_step));
  table.add("aten::rnn_relu.input", one_state(relu_step));
  table.add("aten::lstm_cell", lstm_cell);
  table.add("aten::gru_cell", cell(gru_step));
  table.add("aten::rnn_tanh_cell", cell(tanh_step));
  table.add("aten::rnn_relu_cell", cell(relu_step));
}

}  // namespace poptorch
