#include "tests/support/control_layers.h"

#include "aspen/ops/build.h"
#include "aspen/ops/control/control.h"
#include "aspen/ops/random/random.h"

namespace aspen::testing {

Value* loop_over_rows(Builder& b, Value* h, Value* w, Value* bias, bool reverse, std::int64_t stream) {
  const std::int64_t width = h->shape()[1];
  auto body = std::make_unique<Graph>("row");
  Builder inner(*body);
  Value* state = body->add_input("state", {h->dtype(), {1, width}});
  Value* row = body->add_input("row", {h->dtype(), {width}});
  Value* weight = body->add_input("w", w->type());
  Value* shift = body->add_input("bias", bias->type());
  Value* sum = build::add(inner, build::add(inner, build::dot(inner, state, weight), shift), row);
  Value* next = inner.make("dropout", {build::unary(inner, "tanh", sum)}, DropoutAttrs{.p = 0.2, .stream = stream});
  body->add_output("state", next);
  body->add_output("rows", build::reshape(inner, build::unary(inner, "sigmoid", next), {width}));
  LoopAttrs attrs{.count = h->shape()[0], .carried = 1, .sliced = 1, .reverse = reverse, .body = std::move(body)};
  Op* loop = b.emit("loop", {build::slice(b, h, 0, 0, 1), h, w, bias}, std::move(attrs));
  return build::add(b, loop->output(1), loop->output(0));
}

Value* branch(Builder& b, Value* h, Value* w) {
  std::vector<std::unique_ptr<Graph>> bodies;
  for (const char* function : {"tanh", "sigmoid"}) {
    auto body = std::make_unique<Graph>(function);
    Builder inner(*body);
    Value* x = body->add_input("x", h->type());
    Value* weight = body->add_input("w", w->type());
    Value* y = bodies.empty() ? build::dot(inner, x, weight) : build::mul(inner, x, 0.5);
    body->add_output("y", build::unary(inner, function, y));
    bodies.push_back(std::move(body));
  }
  Value* condition = b.make("gt", {build::reduce_all(b, "reduce_sum", h), build::scalar(b, h->dtype(), 0.1)});
  CondAttrs attrs{.then_body = std::move(bodies[0]), .else_body = std::move(bodies[1])};
  return b.emit("cond", {condition, h, w}, std::move(attrs))->output();
}

Value* call(Builder& b, Value* h, Value* w, std::int64_t stream) {
  auto body = std::make_unique<Graph>("layer");
  Builder inner(*body);
  Value* x = body->add_input("x", h->type());
  Value* weight = body->add_input("w", w->type());
  Value* y = inner.make("dropout", {build::dot(inner, x, weight)}, DropoutAttrs{.p = 0.3, .stream = 7});
  body->add_output("y", build::unary(inner, "sigmoid", y));
  return b.emit("call", {h, w}, CallAttrs{.stream = stream, .body = std::move(body)})->output();
}

}  // namespace aspen::testing
