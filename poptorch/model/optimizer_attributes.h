// The attributes of each kind of optimiser that the device knows: names, defaults, constness, and how to read them
// without naming them. Everything that treats attributes alike stands on this table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "poptorch/optim.h"

namespace poptorch {

struct Attribute {
  using Pair = std::pair<double, double>;
  using Member = std::variant<double optim::Numbers::*, bool optim::Numbers::*, Pair optim::Numbers::*>;

  const char* name;  // as in a parameter group of torch
  Member member;

  bool is_same(const optim::Numbers& a, const optim::Numbers& b) const;
  void copy(const optim::Numbers& from, optim::Numbers& to) const;
  std::string text(const optim::Numbers& numbers) const;
};

// Of a parameter group, in the order in which changes are reported.
std::span<const Attribute> attributes_of(optim::Kind kind);

const char* name_of(optim::Kind kind);  // "sgd"
std::optional<optim::Kind> kind_named(std::string_view name);
optim::Numbers default_numbers(optim::Kind kind);

// Whether an attribute of an optimiser of torch, which cannot say so, is built into the program: it is while it has its
// default, except that the learning rate never is, and some always are.
bool is_constant_by_value(optim::Kind kind, const Attribute& attribute, const optim::Numbers& numbers);

// ArgumentError unless float16 or float32.
void check_accum_type(const char* name, at::ScalarType type);
// ValueError for negative rates and the like.
void check_numbers(optim::Kind kind, const optim::Numbers& numbers);

}  // namespace poptorch
