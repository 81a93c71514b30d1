// einsum: operands are contracted from left to right. Each pair becomes one matrix product over
// (batch, left, contracted) x (batch, contracted, right), or a plain product when nothing is contracted.
#include <map>
#include <set>

#include "poptorch/aten/support/matrix.h"
#include "poptorch/aten/support/view_chain.h"

namespace poptorch {
namespace {

using Labels = std::vector<int>;  // letters by their code; axes of an ellipsis are negative, -1 the last of them

struct Term {
  Expr x;
  Labels labels;  // one per axis, all different
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

Equation parse(const std::string& text) {
  std::string packed;
  for (char c : text) {
    if (c != ' ') packed += c;
  }
  Equation equation;
  std::size_t arrow = packed.find("->");
  equation.explicit_output = arrow != std::string::npos;
  if (equation.explicit_output) equation.output = packed.substr(arrow + 2);
  std::string left = packed.substr(0, arrow);
  for (std::size_t start = 0;;) {
    std::size_t comma = left.find(',', start);
    equation.inputs.push_back(left.substr(start, comma == std::string::npos ? comma : comma - start));
    if (comma == std::string::npos) return equation;
    start = comma + 1;
  }
}

// Letters of one side; an ellipsis stands for `axes` axes.
Labels labels_of(const std::string& side, std::int64_t axes) {
  Labels labels;
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(side[i])) != 0) {
      labels.push_back(side[i]);
    } else if (side.compare(i, 3, "...") == 0) {
      for (std::int64_t axis = axes; axis >= 1; --axis) labels.push_back(static_cast<int>(-axis));
      i += 2;
    } else {
      throw UserError("[einsum] \"{}\" holds the character '{}'; letters, \"...\", ',' and \"->\" may appear.", side,
                      side[i]);
    }
  }
  return labels;
}

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
std::int64_t axis_of(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

// A letter that appears twice in one operand selects its diagonal.
Term without_repeats(Term term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    for (std::size_t k = i + 1; k < term.labels.size(); ++k) {
      if (term.labels[i] != term.labels[k]) continue;
      int label = term.labels[i];
      ChainMaker chain(term.x.shape());
      chain.diagonal(0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(k));
      Labels rest;
      for (std::size_t axis = 0; axis < term.labels.size(); ++axis) {
        if (axis != i && axis != k) rest.push_back(term.labels[axis]);
      }
      rest.push_back(label);
      return without_repeats({expr(*term.x.b, chain.apply(*term.x.b, term.x.v)), std::move(rest)});
    }
  }
  return term;
}

// Sums the axes whose labels nobody needs any more.
Term sum_unneeded(Term term, const std::set<int>& needed) {
  Axes axes;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (needed.contains(term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      axes.push_back(static_cast<std::int64_t>(i));
  }
  return {sum(term.x, axes), kept};
}

// The term with its axes in the order of `labels`.
Expr ordered(const Term& term, const Labels& labels) {
  Axes permutation;
  for (int label : labels) permutation.push_back(axis_of(term.labels, label));
  return transpose(term.x, permutation);
}

Labels joined(const Labels& a, const Labels& b, const Labels& c = {}) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// Axes of size 1 grow to the size the same label has in the other operand.
void match_sizes(Term& a, Term& b) {
  Shape wide_a = a.x.shape(), wide_b = b.x.shape();
  for (int label : a.labels) {
    if (!contains(b.labels, label)) continue;
    std::int64_t& m = wide_a[axis_of(a.labels, label)];
    std::int64_t& n = wide_b[axis_of(b.labels, label)];
    if (m != n && m != 1 && n != 1) {
      throw UserError("[einsum] one label has size {} in shape {} and {} in shape {}.", m, to_string(a.x.shape()), n,
                      to_string(b.x.shape()));
    }
    m = n = m == 1 ? n : m;
  }
  a.x = broadcast(a.x, wide_a);
  b.x = broadcast(b.x, wide_b);
}

Term contract(Term a, Term b, const std::set<int>& needed) {
  std::set<int> for_a(needed), for_b(needed);
  for_a.insert(b.labels.begin(), b.labels.end());
  for_b.insert(a.labels.begin(), a.labels.end());
  a = sum_unneeded(std::move(a), for_a);
  b = sum_unneeded(std::move(b), for_b);
  match_sizes(a, b);
  Labels batch, left, inner, right;
  for (int label : a.labels) {
    (!contains(b.labels, label) ? left : needed.contains(label) ? batch : inner).push_back(label);
  }
  for (int label : b.labels) {
    if (!contains(a.labels, label)) right.push_back(label);
  }
  auto extent = [](const Term& term, const Labels& labels) {
    std::int64_t product = 1;
    for (int label : labels) product *= term.x.size(axis_of(term.labels, label));
    return product;
  };
  std::int64_t n_batch = extent(a, batch), n_left = extent(a, left), n_inner = extent(a, inner),
               n_right = extent(b, right);
  Shape shape;
  for (int label : joined(batch, left)) shape.push_back(a.x.size(axis_of(a.labels, label)));
  for (int label : right) shape.push_back(b.x.size(axis_of(b.labels, label)));
  Labels result = joined(batch, left, right);
  if (inner.empty()) {
    Expr x = reshape(ordered(a, joined(batch, left)), {n_batch, n_left, 1});
    Expr y = reshape(ordered(b, joined(batch, right)), {n_batch, 1, n_right});
    return {reshape(x * y, shape), result};
  }
  auto matrix = [&](Expr x, std::int64_t rows, std::int64_t columns) {
    return reshape(x, batch.empty() ? Shape{rows, columns} : Shape{n_batch, rows, columns});
  };
  Expr product;
  if (!aspen::is_floating(a.x.dtype())) {
    product = matmul(matrix(ordered(a, joined(batch, left, inner)), n_left, n_inner),
                     matrix(ordered(b, joined(batch, inner, right)), n_inner, n_right));
  } else {
    // An operand stored the other way round is read transposed instead of being rearranged.
    bool transpose_a = a.labels == joined(batch, inner, left), transpose_b = b.labels != joined(batch, inner, right);
    Expr x =
        transpose_a ? matrix(a.x, n_inner, n_left) : matrix(ordered(a, joined(batch, left, inner)), n_left, n_inner);
    Expr y =
        transpose_b ? matrix(ordered(b, joined(batch, right, inner)), n_right, n_inner) : matrix(b.x, n_inner, n_right);
    product = dot(x, y, transpose_a, transpose_b);
  }
  return {reshape(product, shape), result};
}

// The operands with labels, and the labels of the result.
struct Problem {
  std::vector<Term> terms;
  Labels output;
};

Problem problem_of(const Equation& equation, const std::vector<Expr>& operands) {
  if (equation.inputs.size() != operands.size()) {
    throw UserError("[einsum] the equation names {} operands, {} were given.", equation.inputs.size(), operands.size());
  }
  Problem problem;
  std::int64_t widest = 0;
  std::map<int, int> uses;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& side = equation.inputs[i];
    bool ellipsis = side.find("...") != std::string::npos;
    auto letters = static_cast<std::int64_t>(labels_of(side, 0).size());
    std::int64_t extra = operands[i].rank() - letters;
    if (extra < 0 || (extra > 0 && !ellipsis)) {
      throw UserError("[einsum] \"{}\" names {} axes, its operand has shape {}.", side, letters,
                      to_string(operands[i].shape()));
    }
    widest = std::max(widest, extra);
    problem.terms.push_back({operands[i], labels_of(side, extra)});
    for (int label : problem.terms.back().labels) ++uses[label];
  }
  if (equation.explicit_output) {
    problem.output = labels_of(equation.output, widest);
    return problem;
  }
  // Without an arrow: the ellipsis, then the letters used once, by the alphabet (capitals first).
  for (std::int64_t axis = widest; axis >= 1; --axis) problem.output.push_back(static_cast<int>(-axis));
  for (const auto& [label, count] : uses) {
    if (label > 0 && count == 1) problem.output.push_back(label);
  }
  return problem;
}

// einsum(str equation, Tensor[] tensors, *, int[]? path=None): the order of contraction is ours
void einsum(Call& call) {
  ScalarType type = call.result_type({"tensors"});
  std::vector<Expr> operands;
  for (Value* value : call.values("tensors"))
    operands.push_back(expr(call, build::cast(call.b, value, graph_dtype(type))));
  Problem problem = problem_of(parse(call.text("equation")), operands);
  for (Term& term : problem.terms) term = without_repeats(std::move(term));
  Term result = problem.terms[0];
  for (std::size_t i = 1; i < problem.terms.size(); ++i) {
    std::set<int> needed(problem.output.begin(), problem.output.end());
    for (std::size_t k = i + 1; k < problem.terms.size(); ++k)
      needed.insert(problem.terms[k].labels.begin(), problem.terms[k].labels.end());
    result = contract(std::move(result), problem.terms[i], needed);
  }
  result = sum_unneeded(std::move(result), std::set<int>(problem.output.begin(), problem.output.end()));
  for (int label : problem.output) {
    if (!contains(result.labels, label)) throw UserError("[einsum] the result names a label that no operand has.");
  }
  call.result(ordered(result, problem.output).v, type);
}

}  // namespace

void register_einsum(HandlerTable& table) { table.add("aten::einsum", einsum); }

}  // namespace poptorch
