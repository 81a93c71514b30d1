// Embedding tables and class indices spelled out.
#include <limits>

#include "aspen/ops/index/index.h"
#include "poptorch/aten/support/expression.h"
#include "poptorch/aten/support/norms.h"

namespace poptorch {
namespace {

Expr index_argument(Call& call, std::string_view argument) {
  return cast(expr(call, call.value(argument)), DType::kI32);
}

// Rows of an embedding table, each within it.
Expr rows_argument(Call& call, const char* who, const Expr& table) {
  std::int64_t rows = table.size(0);
  return check_range(index_argument(call, "indices"), 0, rows - 1, who, "index",
                     fmt::format("a table of {} rows", rows));
}

// How often each row of a table of `rows` rows is named.
Expr counts(Expr index, std::int64_t rows) {
  Expr zeros = full(*index.b, DType::kF32, {rows}, 0);
  return scatter_rows(zeros, index, full(*index.b, DType::kF32, index.shape(), 1), 0, "add");
}

// A factor per looked-up row, shaped to multiply it.
Expr per_row(Expr factor) { return unsqueeze(factor, factor.rank()); }

// A row's gradient divided by the number of times it is read: a term of value 0 carries it.
Expr scaled_by_frequency(Expr rows, Expr index, std::int64_t table_rows) {
  Expr share = cast(1.0 / take(counts(index, table_rows), index, 0), rows.dtype());
  return detach(rows) + (rows - detach(rows)) * per_row(share);
}

// embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)
// The padding row is read like any other but gets no gradient.
void embedding(Call& call) {
  Expr table = expr(call, call.value("weight")), index = rows_argument(call, "embedding", table);
  Expr rows = take(table, index, 0);
  std::int64_t padding = call.integer("padding_idx");
  if (call.boolean("scale_grad_by_freq")) rows = scaled_by_frequency(rows, index, table.size(0));
  if (padding >= 0) rows = where(per_row(index == static_cast<double>(padding)), detach(rows), rows);
  call.result(rows.v, call.dtype("weight"));
}

// embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type): the rows that are named and longer
// than max_norm are shortened to it. Rows named twice are written twice, with the same numbers.
void embedding_renorm(Call& call) {
  Expr table = expr(call, call.value("self")), index = rows_argument(call, "embedding", table);
  index = reshape(index, {index.numel()});
  Expr rows = in_float(take(table, index, 0));
  Expr length = vector_norm(rows, call.number("norm_type"), {1}, true);
  double most = call.number("max_norm");
  Expr shortened = where(length > most, rows * (most / (length + 1e-7)), rows);
  call.result(scatter_rows(table, index, cast(shortened, table.dtype()), 0, "set").v, call.dtype("self"));
}

struct Bags {
  Expr index;  // (n) rows of the table
  Expr bag;    // (n) which bag each belongs to
  std::int64_t count;
};

Bags bags_of(Call& call, const Expr& table) {
  Expr index = rows_argument(call, "embedding_bag", table), offsets = index_argument(call, "offsets");
  std::int64_t n = index.numel(), count = offsets.numel();
  if (index.rank() != 1 || offsets.rank() != 1) {
    throw UserError("[embedding_bag] indices of shape {} and offsets of shape {}: both are vectors here.",
                    to_string(index.shape()), to_string(offsets.shape()));
  }
  offsets = check_range(offsets, 0, n, "embedding_bag", "offset", fmt::format("{} indices", n));
  if (count > 0) {
    Expr first = check_range(slice(offsets, 0, 0, 1), 0, 0, "embedding_bag", "offset", "the first bag");
    offsets = concat({first, slice(offsets, 0, 1, count)}, 0);
  }
  if (call.boolean("include_last_offset")) offsets = slice(offsets, 0, 0, --count);
  // The last bag that starts at or before each position.
  Expr position = iota(call.b, DType::kI32, n);
  Expr after = expr(call, call.b.make("searchsorted", {offsets.v, position.v}, aspen::SearchsortedAttrs{true}));
  return {index, after - 1.0, count};
}

// embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool
// sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
//   -> (Tensor, Tensor offset2bag, Tensor bag_size, Tensor max_indices); mode 0 sum, 1 mean, 2 max; empty bags give 0
void embedding_bag(Call& call) {
  enum { kSum, kMean, kMax };
  std::int64_t mode = call.integer("mode"), padding = integer_or(call, "padding_idx", -1);
  Expr table = expr(call, call.value("weight"));
  ScalarType type = call.dtype("weight");
  Bags bags = bags_of(call, table);
  if (padding < 0 && call.has("padding_idx") && call.name() == "aten::embedding_bag.padding_idx")
    padding += table.size(0);
  Expr counted = bags.index != static_cast<double>(padding);
  Expr sizes = scatter_rows(full(call.b, DType::kI32, {bags.count}, 0), bags.bag, cast(counted, DType::kI32), 0, "add");
  // Rows that are only added up need not be written down first; half is rounded once, behind a division.
  bool only_sums = (mode == kSum || (mode == kMean && table.dtype() == DType::kF32)) && padding < 0 &&
                   !call.has("per_sample_weights") && !call.boolean("scale_grad_by_freq");
  Expr rows = table, sum_or_max = table;
  if (only_sums) {
    sum_or_max = sum_rows(table, bags.index, bags.bag, bags.count);
  } else {
    rows = in_float(take(table, bags.index, 0));
    if (call.boolean("scale_grad_by_freq")) rows = scaled_by_frequency(rows, bags.index, table.size(0));
    if (call.has("per_sample_weights")) rows = rows * per_row(in_float(expr(call, call.value("per_sample_weights"))));
    double start = mode == kMax ? -std::numeric_limits<double>::infinity() : 0;
    rows = where(per_row(counted), rows, start);
    sum_or_max = scatter_rows(full(call.b, rows.dtype(), {bags.count, table.size(1)}, start), bags.bag, rows, 0,
                              mode == kMax ? "max" : "add");
  }
  Expr empty = per_row(sizes == 0.0);
  Expr y = mode == kMean ? sum_or_max / per_row(cast(clamp(sizes, 1, 2147483647), rows.dtype())) : sum_or_max;
  if (mode == kMax) y = where(empty, 0.0, y);
  call.result(cast(y, table.dtype()).v, type);
  call.result(bags.bag.v, ScalarType::Long);
  call.result(sizes.v, ScalarType::Long);
  if (mode != kMax) return call.result(sizes.v, ScalarType::Long);
  // The row of the table each maximum came from: the smallest that equals it.
  Expr found = detach(rows) == take(detach(sum_or_max), bags.bag, 0);
  Expr candidates = where(found, per_row(bags.index), full(call.b, DType::kI32, {}, 2147483647));
  Expr first =
      scatter_rows(full(call.b, DType::kI32, {bags.count, table.size(1)}, 2147483647), bags.bag, candidates, 0, "min");
  call.result(where(empty, 0.0, first).v, ScalarType::Long);
}

// one_hot(Tensor self, int num_classes=-1)
void one_hot(Call& call) {
  std::int64_t classes = call.integer("num_classes");
  if (classes < 0) {
    auto known = call.known("self");
    if (!known) throw UserError("[one_hot] the number of classes depends on the values; pass num_classes.");
    std::vector<double> numbers = read_numbers(*known);
    classes = numbers.empty() ? 0 : static_cast<std::int64_t>(*std::max_element(numbers.begin(), numbers.end())) + 1;
  }
  if (classes < 1) throw UserError("[one_hot] num_classes is {}; expected at least 1.", classes);
  Expr index =
      check_range(index_argument(call, "self"), 0, classes - 1, "one_hot", "class", fmt::format("{} classes", classes));
  Expr equal = unsqueeze(index, index.rank()) == iota(call.b, DType::kI32, classes);
  call.result(cast(equal, DType::kI32).v, ScalarType::Long);
}

// bincount(Tensor self, Tensor? weights=None, int minlength=0): minlength is the length of the result; values beyond it
// are dropped
void bincount(Call& call) {
  std::int64_t length = call.integer("minlength");
  if (auto known = call.known("self")) {
    for (double number : read_numbers(*known)) length = std::max(length, static_cast<std::int64_t>(number) + 1);
  } else if (length < 1) {
    throw UserError("[bincount] the length of the result depends on the values; pass minlength >= 1.");
  }
  Expr index = check_range(index_argument(call, "self"), 0, std::numeric_limits<std::int32_t>::max(), "bincount",
                           "number", "counting");
  Expr inside = index < static_cast<double>(length);
  Expr place = clamp(index, 0, static_cast<double>(std::max<std::int64_t>(length - 1, 0)));
  ScalarType type = call.has("weights") ? call.dtype("weights") : ScalarType::Long;
  if (call.has("weights") && !is_float(type)) type = ScalarType::Double;
  Expr amount =
      call.has("weights") ? expr(call, operand(call, "weights", type)) : full(call.b, DType::kI32, index.shape(), 1);
  Expr zeros = full(call.b, amount.dtype(), {length}, 0);
  call.result(scatter_rows(zeros, place, where(inside, amount, 0.0), 0, "add").v, type);
}

// searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None,
// Tensor? sorter=None), searchsorted.Scalar(Tensor sorted_sequence, Scalar self, ...)
// bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False), bucketize.Scalar(...)
Handler search(const char* sequence) {
  return [sequence](Call& call) {
    ScalarType type = call.result_type({sequence, "self"});
    Expr sorted = expr(call, operand(call, sequence, type)), values = expr(call, operand(call, "self", type));
    if (call.has("sorter")) {
      Expr order = index_argument(call, "sorter");
      sorted = gather(sorted, order, sorted.rank() - 1);
    }
    bool right = call.boolean("right") || (call.has("side") && call.text("side") == "right");
    Shape shape = values.shape();
    if (sorted.rank() == 1) values = reshape(values, {values.numel()});
    Expr place = expr(call, call.b.make("searchsorted", {sorted.v, values.v}, aspen::SearchsortedAttrs{right}));
    call.result(reshape(place, shape).v, call.boolean("out_int32") ? ScalarType::Int : ScalarType::Long);
  };
}

}  // namespace

void register_embeddings(HandlerTable& table) {
  table.add("aten::embedding", embedding);
  for (const char* name : {"aten::embedding_bag", "aten::embedding_bag.padding_idx", "aten::_embedding_bag",
                           "aten::_embedding_bag_forward_only"}) {
    table.add(name, embedding_bag);
  }
  table.add("aten::embedding_renorm", embedding_renorm);
  table.add("aten::one_hot", one_hot);
  table.add("aten::bincount", bincount);
  table.add("aten::searchsorted.Tensor", search("sorted_sequence"));
  table.add("aten::searchsorted.Scalar", search("sorted_sequence"));
  table.add("aten::bucketize.Tensor", search("boundaries"));
  table.add("aten::bucketize.Scalar", search("boundaries"));
}

}  // namespace poptorch
