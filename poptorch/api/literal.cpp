#include "poptorch/api/literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "poptorch/error.h"

namespace poptorch {
namespace {

constexpr int kMaxDepth = 64;  // of lists in lists

class Parser {
 public:
  Parser(const std::string& text, bool is_json) : text_(text), is_json_(is_json) {}

  OptionValue whole_value() {
    OptionValue value = this->value();
    end();
    return value;
  }

  Call statement() {
    Call call = this->call(name());
    end();
    return call;
  }

 private:
  [[noreturn]] void expected(const std::string& what) {
    skip_space();
    const std::string found =
        at_ == text_.size() ? "the end of the text" : fmt::format("\"{}\"", text_.substr(at_, 12));
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw LiteralError(static_cast<std::size_t>(line), fmt::format("expected {}, but found {}", what, found));
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    if (!is_json_ && at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void need(char c, const char* after) {
    if (!take(c)) expected(fmt::format("\"{}\" after {}", c, after));
  }
  void end() {
    if (peek() != '\0' || at_ < text_.size()) expected("nothing more");
  }

  OptionValue value() {
    if (++depth_ > kMaxDepth) expected(fmt::format("at most {} lists inside each other", kMaxDepth));
    OptionValue found = any_value();
    --depth_;
    return found;
  }

  OptionValue any_value() {
    const char c = peek();
    if (c == '"' || (c == '\'' && !is_json_)) return string();
    if (c == '[') return list(']');
    if (c == '(' && !is_json_) return list(')');
    if (c == '{') return dict();
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') return word();
    expected("a value");
  }

  std::string string() {
    const char quote = text_[at_++];
    std::string result;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') break;
      if (text_[at_] != '\\') {
        result += text_[at_++];
        continue;
      }
      ++at_;
      escape(result);
    }
    if (at_ >= text_.size() || text_[at_] != quote) expected("the closing quote of a string");
    ++at_;
    return result;
  }

  void escape(std::string& into) {
    constexpr std::string_view kFrom = "nrtbf\"'\\/", kTo = "\n\r\t\b\f\"'\\/";
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == 'u') {
      ++at_;
      const std::uint32_t high = hex();
      const bool is_pair = high >= 0xd800 && high < 0xdc00 && text_.compare(at_, 2, "\\u") == 0;
      if (is_pair) at_ += 2;
      append_utf8(is_pair ? 0x10000 + ((high - 0xd800) << 10) + (hex() - 0xdc00) : high, into);
    } else if (const auto index = kFrom.find(c); c != '\0' && index != std::string_view::npos) {
      into += kTo[index];
      ++at_;
    } else {
      expected("an escape such as \\n, \\\" or \\u0041");
    }
  }

  std::uint32_t hex() {
    std::uint32_t code = 0;
    const char* first = text_.data() + at_;
    const char* last = first + std::min<std::size_t>(4, text_.size() - at_);
    if (std::from_chars(first, last, code, 16).ptr != first + 4) expected("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  static void append_utf8(std::uint32_t code, std::string& into) {
    const auto byte = [&](std::uint32_t bits) { into += static_cast<char>(bits); };
    if (code < 0x80) return byte(code);
    if (code < 0x800) {
      byte(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
      byte(0xe0 | (code >> 12));
      byte(0x80 | ((code >> 6) & 0x3f));
    } else {
      byte(0xf0 | (code >> 18));
      byte(0x80 | ((code >> 12) & 0x3f));
      byte(0x80 | ((code >> 6) & 0x3f));
    }
    byte(0x80 | (code & 0x3f));
  }

  OptionValue number() {
    const std::size_t begin = at_;
    const auto end = std::min(text_.find_first_not_of("+-.0123456789eE", begin), text_.size());
    const char *first = text_.data() + begin, *last = text_.data() + end;
    at_ = end;
    std::int64_t integer = 0;
    if (const auto read = std::from_chars(first, last, integer); read.ptr == last && read.ec == std::errc()) {
      return integer;
    }
    std::uint64_t large = 0;
    if (const auto read = std::from_chars(first, last, large); read.ptr == last && read.ec == std::errc()) return large;
    double real = 0;
    if (const auto read = std::from_chars(first, last, real); read.ptr == last && read.ec == std::errc()) return real;
    at_ = begin;
    expected("a number");
  }

  OptionList list(char closing) {
    ++at_;
    OptionList values;
    while (peek() != closing) {
      values.push_back(value());
      if (!take(',')) break;
      if (is_json_ && peek() == closing) expected("a value after \",\"");
    }
    need(closing, "the values of a list");
    return values;
  }

  OptionDict dict() {
    ++at_;
    OptionDict entries;
    while (peek() != '}') {
      OptionValue key = is_json_ && peek() != '"' ? OptionValue() : value();
      need_key(key);
      need(':', "the name of an entry");
      entries[key.is_integer() ? OptionKey(key.integer()) : OptionKey(std::get<std::string>(key.data))] = value();
      if (!take(',')) break;
      if (is_json_ && peek() == '}') expected("an entry after \",\"");
    }
    need('}', "the entries");
    return entries;
  }
  void need_key(const OptionValue& key) {
    if (key.as<std::string>() == nullptr && key.as<std::int64_t>() == nullptr) expected("the name of an entry");
  }

  std::string identifier() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (at_ == begin) expected("a name");
    return text_.substr(begin, at_ - begin);
  }

  // Parts joined by dots, however they were written.
  std::string name() {
    std::string result = identifier();
    while (at_ < text_.size() && (text_[at_] == '.' || text_.compare(at_, 2, "::") == 0)) {
      at_ += text_[at_] == '.' ? 1 : 2;
      result += "." + identifier();
    }
    return result.rfind("poptorch.", 0) == 0 ? result.substr(9) : result;
  }

  OptionValue word() {
    const std::size_t begin = at_;
    const std::string name = is_json_ ? identifier() : this->name();
    if (name == "true" || (!is_json_ && name == "True")) return true;
    if (name == "false" || (!is_json_ && name == "False")) return false;
    if (name == "null" || (!is_json_ && (name == "None" || name == "nullptr"))) return {};
    if (!is_json_ && peek() == '(') return object(name, begin);
    OptionValue member = is_json_ ? OptionValue() : enum_member(name);
    if (!member.is_null()) return member;
    at_ = begin;
    expected("a value");
  }

  OptionValue object(const std::string& name, std::size_t begin) {
    auto chain = std::make_shared<CallChain>();
    chain->push_back(call(name));
    while (take('.')) chain->push_back(call(identifier()));
    return ForeignObject{chain, text_.substr(begin, at_ - begin)};
  }

  Call call(std::string name) {
    Call made;
    made.name = std::move(name);
    need('(', made.name.c_str());
    while (peek() != ')') {
      const std::size_t begin = at_;
      if (std::isalpha(static_cast<unsigned char>(peek())) != 0) {
        const std::string keyword = identifier();
        if (take('=')) {
          made.named[keyword] = value();
          if (!take(',')) break;
          continue;
        }
        at_ = begin;
      }
      if (!made.named.empty()) expected("an argument with a name");
      made.arguments.push_back(value());
      if (!take(',')) break;
    }
    need(')', "the arguments");
    return made;
  }

  const std::string& text_;
  bool is_json_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

OptionValue parse_json(const std::string& text, const std::string& source) {
  try {
    return Parser(text, true).whole_value();
  } catch (const LiteralError& error) {
    throw Error(fmt::format("[{}] line {} is not JSON: {}.", source, error.line, error.what()));
  }
}

Call parse_statement(const std::string& text) { return Parser(text, false).statement(); }

const CallChain* made_in_place(const OptionValue& value) {
  const auto* object = value.as<ForeignObject>();
  return object == nullptr ? nullptr : static_cast<const CallChain*>(object->object.get());
}

}  // namespace poptorch
