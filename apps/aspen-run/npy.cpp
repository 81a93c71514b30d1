#include "npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "aspen/backends/api/convert.h"
#include "aspen/base/error.h"

namespace aspen {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6), kDigits("0123456789");

// What numpy calls a type.
struct TypeName {
  std::string_view descr;
  DType dtype;
};
constexpr std::array<TypeName, 8> kTypes = {{{"<f4", DType::kF32},
                                             {"<f2", DType::kF16},
                                             {"<i8", DType::kI64},
                                             {"<i4", DType::kI32},
                                             {"<i2", DType::kI16},
                                             {"|i1", DType::kI8},
                                             {"|u1", DType::kU8},
                                             {"|b1", DType::kBool}}};

template <class... Args>
[[noreturn]] void refuse(const std::filesystem::path& file, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError("[npy] \"{}\" {}", file.string(), fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::byte> contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(file, "cannot be opened: {}.", std::system_category().message(errno));
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Header {
  std::string descr;
  bool column_major = false;
  Shape shape;
  std::size_t size = 0;  // of all that lies before the numbers
};

// numpy writes the header padded to a multiple of 64 bytes; one this long is none of an array that could be meant here.
constexpr std::size_t kLongestHeader = 1 << 16;

Shape parse_shape(const std::filesystem::path& file, std::string_view text) {
  Shape shape;
  std::int64_t numel = 1;
  for (std::size_t at = text.find_first_of(kDigits); at != std::string_view::npos;
       at = text.find_first_of(kDigits, at)) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
    std::int64_t extent = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, extent);
    if (error != std::errc() || extent > std::numeric_limits<std::int32_t>::max() ||
        numel > std::numeric_limits<std::int64_t>::max() / 16 / std::max<std::int64_t>(extent, 1)) {
      refuse(file, "has the shape ({}), which is too large.", text);
    }
    numel *= std::max<std::int64_t>(extent, 1);
    shape.push_back(extent);
    at = end;
  }
  return shape;
}

Header parse_header(const std::filesystem::path& file, std::string_view text) {
  if (text.size() < 10 || !text.starts_with(kMagic)) refuse(file, "is no .npy file.");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t begin = byte(6) == 1 ? 10 : 12;
  if (text.size() < begin) refuse(file, "ends within its header.");
  std::size_t length = byte(8) | byte(9) << 8;
  if (begin == 12) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - begin) refuse(file, "ends within its header.");
  if (length > kLongestHeader) refuse(file, "has a header of {} bytes.", length);
  const std::string dict(text.substr(begin, length));
  static const std::regex descr(R"('descr'\s*:\s*'([^']*)')"), order(R"('fortran_order'\s*:\s*(True|False))"),
      shape(R"('shape'\s*:\s*\(([0-9, ]*)\))");
  std::smatch found;
  Header header{.size = begin + length};
  if (!std::regex_search(dict, found, descr)) refuse(file, "has a header without a type: {}", dict);
  header.descr = found[1];
  if (!std::regex_search(dict, found, order)) refuse(file, "has a header without an order: {}", dict);
  header.column_major = found[1] == "True";
  if (!std::regex_search(dict, found, shape)) refuse(file, "has a header without a shape: {}", dict);
  header.shape = parse_shape(file, found[1].str());
  return header;
}

std::vector<std::byte> as_float32(std::span<const std::byte> float64) {
  std::vector<std::byte> result(float64.size() / sizeof(double) * sizeof(float));
  for (std::size_t i = 0; i < float64.size() / sizeof(double); ++i) {
    double number;
    std::memcpy(&number, float64.data() + i * sizeof(double), sizeof(double));
    const auto narrow = static_cast<float>(number);
    std::memcpy(result.data() + i * sizeof(float), &narrow, sizeof(float));
  }
  return result;
}

template <class To, class From>
Array cast_to(const Array& array) {
  Array result{.type = {dtype_of<To>(), array.type.shape}};
  result.bytes.resize(result.type.bytes());
  const auto* from = reinterpret_cast<const From*>(array.bytes.data());
  auto* to = reinterpret_cast<To*>(result.bytes.data());
  std::transform(from, from + result.type.numel(), to, convert<To, From>);
  return result;
}

Array as_int32(const Array& array, const std::filesystem::path& file) {
  Array result = cast_to<std::int32_t, std::int64_t>(array);
  const auto* wide = reinterpret_cast<const std::int64_t*>(array.bytes.data());
  const auto* narrow = reinterpret_cast<const std::int32_t*>(result.bytes.data());
  const auto [lost, kept] = std::mismatch(wide, wide + array.type.numel(), narrow);
  if (lost != wide + array.type.numel()) {
    refuse(file, "holds {}, which does not fit into the int32 of the program.", *lost);
  }
  return result;
}

}  // namespace

Array read_npy(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = contents(file);
  const Header header = parse_header(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (header.column_major && header.shape.size() > 1) {
    refuse(file, "is in column-major order; save numpy.ascontiguousarray of it.");
  }
  const auto data = std::span(bytes).subspan(header.size);
  Array array{.type = {DType::kF32, header.shape}};
  if (header.descr == "<f8") {
    array.bytes = as_float32(data);
  } else {
    const auto* type =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& known) { return known.descr == header.descr; });
    if (type == kTypes.end()) {
      refuse(file,
             "holds numbers of type \"{}\"; a program takes float16, float32, float64, int8 to int64, uint8 and "
             "bool.",
             header.descr);
    }
    array.type.dtype = type->dtype;
    array.bytes.assign(data.begin(), data.end());
  }
  if (array.bytes.size() != array.type.bytes()) {
    refuse(file, "has {} bytes of numbers where {} has {}.", array.bytes.size(), to_string(array.type),
           array.type.bytes());
  }
  return array;
}

std::optional<Array> converted(const Array& array, DType type, const std::filesystem::path& file) {
  if (array.type.dtype == type) return array;
  if (array.type.dtype == DType::kI64 && type == DType::kI32) return as_int32(array, file);
  if (array.type.dtype == DType::kI32 && type == DType::kI64) return cast_to<std::int64_t, std::int32_t>(array);
  if (array.type.dtype != DType::kF32) return std::nullopt;
  if (type == DType::kF16) return cast_to<Half, float>(array);
  if (type == DType::kBF16) return cast_to<BFloat16, float>(array);
  return std::nullopt;
}

void write_npy(const std::filesystem::path& file, const Array& array) {
  if (array.type.dtype == DType::kBF16) return write_npy(file, cast_to<float, BFloat16>(array));
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& known) { return known.dtype == array.type.dtype; });
  if (type == kTypes.end()) refuse(file, "cannot hold {}: numpy has no such type.", to_string(array.type));
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type->descr,
                                   fmt::join(array.type.shape, ", "), array.type.rank() == 1 ? "," : "");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream stream(file, std::ios::binary);
  stream << kMagic << '\x01' << '\x00' << static_cast<char>(header.size() & 0xff)
         << static_cast<char>(header.size() >> 8) << header;
  stream.write(reinterpret_cast<const char*>(array.bytes.data()), static_cast<std::streamsize>(array.bytes.size()));
  stream.close();
  if (!stream) refuse(file, "could not be written: {}.", std::system_category().message(errno));
}

}  // namespace aspen
