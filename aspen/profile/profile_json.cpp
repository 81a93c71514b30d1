#include "aspen/profile/profile_json.h"

#include <fmt/format.h>

#include <span>
#include <type_traits>

#include "aspen/base/error.h"
#include "aspen/base/whole_file.h"
#include "aspen/profile/enum_names.h"
#include "aspen/profile/json_writer.h"
#include "aspen/profile/profile_check.h"
#include "aspen/profile/profile_fields.h"

namespace aspen::profile {
namespace {

constexpr const char* kFormat = "aspen-profile";

std::string excerpt(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 40 ? text : fmt::format("{}...", text.substr(0, 37));
}

[[noreturn]] void fail(const std::string& path, std::string_view expected, const Json& found) {
  throw UserError("[profile] {} is {}; expected {}.", path, excerpt(found), expected);
}

// path: gives the name of the field, only where it is wanted.
template <Scalar T, class Path>
void read(const Json& json, T& value, const Path& path) {
  if constexpr (std::is_enum_v<T>) {
    const std::string* word = json.get_ptr<const std::string*>();
    for (std::size_t i = 0; word != nullptr && i < kNames<T>.size(); ++i) {
      if (kNames<T>[i] == *word) {
        value = static_cast<T>(i);
        return;
      }
    }
    fail(path(), fmt::format("one of \"{}\"", fmt::join(kNames<T>, "\", \"")), json);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) fail(path(), "a text", json);
    value = json.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) fail(path(), "true or false", json);
    value = json.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) fail(path(), "a number", json);
    value = json.get<T>();
  } else {
    if (!json.is_number_integer()) fail(path(), "a whole number", json);
    value = json.get<T>();
  }
}

const Json& field(const Json& object, const std::string& path, const char* name) {
  const auto found = object.find(name);
  if (found != object.end()) return *found;
  throw UserError("[profile] {}{}{} is missing.", path, path.empty() ? "" : ".", name);
}

// The columns of a table, in the order of the fields; all of the same length.
class ColumnFinder {
 public:
  ColumnFinder(const Json& table, std::string path) : table_(table), path_(std::move(path)) {}
  template <Scalar T>
  ColumnFinder& operator()(const char* name, T&) {
    const Json& column = field(table_, path_, name);
    if (!column.is_array()) fail(fmt::format("{}.{}", path_, name), "a list", column);
    if (!columns.empty() && column.size() != num_rows()) {
      throw UserError("[profile] {}.{} has {} rows; the columns before it have {}.", path_, name, column.size(),
                      num_rows());
    }
    columns.push_back(&column);
    return *this;
  }
  std::size_t num_rows() const { return columns.front()->size(); }
  std::vector<const Json*> columns;

 private:
  const Json& table_;
  std::string path_;
};

class RowReader {
 public:
  template <class Row>
  static void read_table(const Json& table, const std::string& path, std::vector<Row>& rows) {
    ColumnFinder finder(table, path);
    Row example;
    visit(finder, example);
    rows.resize(finder.num_rows());
    RowReader reader(finder.columns, path);
    for (Row& row : rows) {
      visit(reader, row);
      ++reader.row_;
      reader.next_ = 0;
    }
  }
  template <Scalar T>
  RowReader& operator()(const char* name, T& value) {
    read((*columns_[next_++])[row_], value, [&] { return fmt::format("{}.{}[{}]", path_, name, row_); });
    return *this;
  }

 private:
  RowReader(const std::vector<const Json*>& columns, const std::string& path) : columns_(columns), path_(path) {}
  const std::vector<const Json*>& columns_;
  const std::string& path_;
  std::size_t row_ = 0, next_ = 0;
};

class Reader {
 public:
  Reader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) fail(path_.empty() ? "the file" : path_, "an object", object);
  }
  template <class T>
  Reader& operator()(const char* name, T& value) {
    const Json& json = field(object_, path_, name);
    if constexpr (Scalar<T>) {
      read(json, value, [&] { return path_of(name); });
    } else {
      Reader within(json, path_of(name));
      visit(within, value);
    }
    return *this;
  }
  Reader& operator()(const char* name, std::vector<std::int64_t>& values) {
    const Json& json = field(object_, path_, name);
    if (!json.is_array()) fail(path_of(name), "a list", json);
    values.resize(json.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      read(json[i], values[i], [&] { return fmt::format("{}[{}]", path_of(name), i); });
    }
    return *this;
  }
  template <class Row>
  Reader& operator()(const char* name, std::vector<Row>& rows) {
    const Json& table = field(object_, path_, name);
    if (!table.is_object()) fail(path_of(name), "an object of columns", table);
    RowReader::read_table(table, path_of(name), rows);
    return *this;
  }

 private:
  std::string path_of(const char* name) const { return path_.empty() ? name : fmt::format("{}.{}", path_, name); }
  const Json& object_;
  std::string path_;
};

void check_version(const Json& json) {
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat) {
    throw UserError("[profile] this is no profile: it does not begin with \"format\": \"{}\".", kFormat);
  }
  std::int64_t version = 0;
  read(field(json, "", "version"), version, [] { return "version"; });
  if (version > kVersion) {
    throw UserError(
        "[profile] version {} of the format is newer than {}, the newest this program reads; use the "
        "version of Aspen that wrote it.",
        version, kVersion);
  }
  if (version < 1) throw UserError("[profile] version is {}; the first one is 1.", version);
}

}  // namespace

std::string to_json(const Profile& profile) {
  JsonWriter writer;
  writer.object["format"] = kFormat;
  writer.object["version"] = kVersion;
  visit(writer, const_cast<Profile&>(profile));  // one list of fields serves both ways; a writer changes none
  return writer.text();
}

Profile from_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw UserError("[profile] this is no JSON, from byte {} on: {}.", error.byte, excerpt(std::string(error.what())));
  }
  check_version(json);
  Profile result;
  Reader reader(json, "");
  visit(reader, result);
  check(result);
  return result;
}

void write_profile(const std::filesystem::path& file, const Profile& profile) {
  const std::string text = to_json(profile);
  write_whole(file, {std::as_bytes(std::span(text))});
}

Profile read_profile(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_whole(file);
  try {
    return from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error&) {
    rethrow_with_context(fmt::format("in \"{}\"", file.string()));
  }
}

}  // namespace aspen::profile
