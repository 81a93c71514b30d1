#include "poptorch/aten/support/loop.h"

#include "aspen/ops/control/control.h"
#include "poptorch/capture/control_flow.h"

namespace poptorch {
namespace {

using OneTurn = std::function<TurnResults(const LoopValues&)>;

LoopResults unrolled(std::int64_t count, bool reverse, LoopValues values, const OneTurn& turn) {
  std::vector<std::vector<Expr>> parts;  // by stack and row
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = reverse ? count - 1 - i : i;
    LoopValues now{.carried = values.carried, .rows = {}, .fixed = values.fixed};
    for (const Expr& rows : values.rows) now.rows.push_back(select_row(rows, 0, row));
    TurnResults results = turn(now);
    values.carried = results.carried;
    parts.resize(results.parts.size(), std::vector<Expr>(static_cast<std::size_t>(count)));
    for (std::size_t k = 0; k < results.parts.size(); ++k) {
      parts[k][static_cast<std::size_t>(row)] = unsqueeze(results.parts[k], 0);
    }
  }
  LoopResults results{.carried = values.carried, .stacks = {}};
  for (const auto& rows : parts) results.stacks.push_back(concat(rows, 0));
  return results;
}

LoopResults looped(Builder& b, std::int64_t count, bool reverse, const LoopValues& values, const OneTurn& turn) {
  auto body = std::make_unique<aspen::Graph>("turn");
  Builder inner(*body);
  inner.location = b.location;
  inner.placement = b.placement;
  inner.no_grad = b.no_grad;
  LoopValues inside;
  std::vector<Value*> operands;
  const auto add = [&](const Expr& outside, aspen::TensorType type, std::vector<Expr>& list) {
    operands.push_back(outside.v);
    list.push_back(expr(inner, body->add_input("", std::move(type))));
  };
  for (const Expr& x : values.carried) add(x, x.v->type(), inside.carried);
  for (const Expr& x : values.rows) {
    aspen::TensorType row = x.v->type();
    row.shape.erase(row.shape.begin());
    add(x, std::move(row), inside.rows);
  }
  for (const Expr& x : values.fixed) add(x, x.v->type(), inside.fixed);
  const TurnResults returned = turn(inside);
  for (const Expr& x : returned.carried) body->add_output("result", x.v);
  for (const Expr& x : returned.parts) body->add_output("result", x.v);
  aspen::LoopAttrs attrs{.count = count,
                         .carried = static_cast<std::int64_t>(values.carried.size()),
                         .sliced = static_cast<std::int64_t>(values.rows.size()),
                         .reverse = reverse,
                         .body = std::move(body)};
  const aspen::Op* loop = b.emit("loop", std::move(operands), std::move(attrs));
  LoopResults results;
  for (std::size_t i = 0; i < loop->num_outputs(); ++i) {
    auto& list = i < values.carried.size() ? results.carried : results.stacks;
    list.push_back(expr(b, loop->output(i)));
  }
  return results;
}

}  // namespace

LoopResults repeat(Builder& b, std::int64_t count, bool reverse, const LoopValues& values, const OneTurn& turn) {
  return count <= kLongestUnrolled ? unrolled(count, reverse, values, turn) : looped(b, count, reverse, values, turn);
}

}  // namespace poptorch
