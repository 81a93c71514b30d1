// How arguments and results of forward are taken apart into tensors and put together again: tensors, numbers, texts,
// and optionals, pairs, tuples, arrays, vectors and maps of them. A struct of your own takes part once it names its
// members:
//
//   template <>
//   struct poptorch::Structure<Batch> {
//     static auto members(Batch& batch) { return std::tie(batch.tokens, batch.mask, batch.causal); }
//   };
//
// Tensors are inputs and outputs of the compiled model. All else is a part of it, fixed by the first call.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace poptorch {

// A value taken apart. facts: what else than tensors there is, each with its place ("1.mask"), in order.
struct FlatValue {
  struct Fact {
    std::string place, value;
  };
  std::vector<at::Tensor> tensors;
  std::vector<std::string> places;  // of the tensors
  std::vector<Fact> facts;
};

template <class T>
struct Structure;  // static std::tuple<Members&...> members(T&)

namespace detail {

std::string text_of(double number);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
concept IsTuple = requires {
  std::tuple_size<T>::value;
};

template <class T>
concept HasMembers = requires(T& value) {
  Structure<T>::members(value);
};

template <class T>
constexpr bool always_false = false;

inline std::string inside(const std::string& place, const std::string& name) {
  return place.empty() ? name : place + "." + name;
}

// Calls tensor(tensor&, place) for each tensor and fact(place, text) for all else.
template <class T, class OnTensor, class OnFact>
void visit(T& value, const std::string& place, const OnTensor& on_tensor, const OnFact& on_fact) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, at::Tensor>) {
    on_tensor(value, place);
  } else if constexpr (std::is_same_v<Plain, bool>) {
    on_fact(place, value ? "true" : "false");
  } else if constexpr (std::is_integral_v<Plain>) {
    on_fact(place, std::to_string(value));
  } else if constexpr (std::is_floating_point_v<Plain>) {
    on_fact(place, text_of(value));
  } else if constexpr (std::is_enum_v<Plain>) {
    on_fact(place, std::to_string(static_cast<std::underlying_type_t<Plain>>(value)));
  } else if constexpr (std::is_convertible_v<Plain, std::string>) {
    on_fact(place, '"' + std::string(value) + '"');
  } else if constexpr (IsOptional<Plain>::value) {
    on_fact(place, value ? "given" : "absent");
    if (value) visit(*value, place, on_tensor, on_fact);
  } else if constexpr (IsMap<Plain>::value) {
    std::string keys;
    for (auto& [key, item] : value) keys += (keys.empty() ? "" : ", ") + key;
    on_fact(place, "a map with keys " + keys);
    for (auto& [key, item] : value) visit(item, inside(place, key), on_tensor, on_fact);
  } else if constexpr (IsVector<Plain>::value) {
    on_fact(place, "a vector of " + std::to_string(value.size()));
    for (std::size_t i = 0; i < value.size(); ++i)
      visit(value[i], inside(place, std::to_string(i)), on_tensor, on_fact);
  } else if constexpr (HasMembers<Plain>) {
    auto members = Structure<Plain>::members(const_cast<Plain&>(value));
    visit(members, place, on_tensor, on_fact);
  } else if constexpr (IsTuple<Plain>) {
    std::apply(
        [&, i = std::size_t{0}](auto&... items) mutable {
          (visit(items, inside(place, std::to_string(i++)), on_tensor, on_fact), ...);
        },
        value);
  } else {
    static_assert(always_false<T>,
                  "forward takes or returns a type that poptorch cannot take apart: specialise poptorch::Structure");
  }
}

template <class T>
FlatValue flatten(const T& value) {
  FlatValue flat;
  visit(
      value, "",
      [&](const at::Tensor& tensor, const std::string& place) {
        flat.tensors.push_back(tensor);
        flat.places.push_back(place);
      },
      [&](const std::string& place, std::string text) {
        flat.facts.push_back({place, std::move(text)});
      });
  return flat;
}

// The same value with these tensors, in the order in which flatten() finds them.
template <class T>
T rebuilt(T value, const std::vector<at::Tensor>& tensors) {
  std::size_t next = 0;
  visit(
      value, "", [&](at::Tensor& tensor, const std::string&) { tensor = tensors.at(next++); },
      [](const std::string&, const std::string&) {});
  return value;
}

}  // namespace detail
}  // namespace poptorch
