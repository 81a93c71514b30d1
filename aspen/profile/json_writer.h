// Structs as JSON by their lists of fields (visit): objects, and tables as objects of columns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "aspen/profile/enum_names.h"

namespace aspen::profile {

using Json = nlohmann::ordered_json;

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

template <Scalar T>
Json json_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else {
    return value;
  }
}

// One row after the other into the columns of a table.
class RowWriter {
 public:
  template <class Row>
  static Json table(std::vector<Row>& rows) {
    RowWriter writer;
    Row example;  // a table without rows has its columns, too
    visit(writer, example);
    for (auto& [name, column] : writer.columns_) column.clear();
    for (Row& row : rows) {
      writer.next_ = 0;
      visit(writer, row);
    }
    Json result = Json::object();
    for (auto& [name, column] : writer.columns_) result[name] = std::move(column);
    return result;
  }
  template <Scalar T>
  RowWriter& operator()(const char* name, const T& value) {
    if (next_ == columns_.size()) columns_.emplace_back(name, Json::array());
    columns_[next_++].second.push_back(json_of(value));
    return *this;
  }

 private:
  std::vector<std::pair<const char*, Json>> columns_;
  std::size_t next_ = 0;
};

class JsonWriter {
 public:
  template <class T>
  JsonWriter& operator()(const char* name, T& value) {
    if constexpr (Scalar<T>) {
      object[name] = json_of(value);
    } else {
      JsonWriter within;
      visit(within, value);
      object[name] = std::move(within.object);
    }
    return *this;
  }
  JsonWriter& operator()(const char* name, std::vector<std::int64_t>& values) {
    object[name] = values;
    return *this;
  }
  template <class Row>
  JsonWriter& operator()(const char* name, std::vector<Row>& rows) {
    object[name] = RowWriter::table(rows);
    return *this;
  }
  // Names may come from anywhere: what is not UTF-8 in them is replaced.
  std::string text() const { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

  Json object = Json::object();
};

}  // namespace aspen::profile
