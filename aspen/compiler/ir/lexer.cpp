#include "aspen/compiler/ir/lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "aspen/compiler/ir/printer.h"

namespace aspen {

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
      ++position_;
    } else if (rest().starts_with("//")) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

bool Lexer::at_end() {
  skip_blanks();
  return position_ == text_.size();
}

bool Lexer::peek(std::string_view token) {
  skip_blanks();
  return rest().starts_with(token);
}

bool Lexer::accept(std::string_view token) {
  if (!peek(token)) return false;
  position_ += token.size();
  return true;
}

void Lexer::expect(std::string_view token) {
  if (!accept(token)) fail_expected(fmt::format("\"{}\"", token));
}

bool Lexer::peek_word(std::string_view word) {
  return peek(word) && (rest().size() == word.size() || !is_word_character(rest()[word.size()]));
}

bool Lexer::accept_word(std::string_view word) {
  if (!peek_word(word)) return false;
  position_ += word.size();
  return true;
}

std::string Lexer::word(std::string_view what) {
  if (peek("\"")) return quoted();
  std::size_t length = 0;
  while (length < rest().size() && is_word_character(rest()[length])) ++length;
  if (length == 0) fail_expected(what);
  std::string result(rest().substr(0, length));
  position_ += length;
  return result;
}

std::string Lexer::quoted() {
  expect("\"");
  std::size_t start = position_ - 1;
  std::string result;
  while (position_ < text_.size() && text_[position_] != '"') {
    if (text_[position_] == '\\' && position_ + 1 < text_.size()) ++position_;
    result += text_[position_++];
  }
  if (position_ == text_.size()) fail_at(start, "this string has no closing quote.");
  ++position_;
  return result;
}

std::int64_t Lexer::integer() {
  skip_blanks();
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(rest().data(), rest().data() + rest().size(), value);
  if (error != std::errc()) fail_expected("an integer");
  position_ += static_cast<std::size_t>(end - rest().data());
  return value;
}

double Lexer::number() {
  skip_blanks();
  double value = 0;
  auto [end, error] = std::from_chars(rest().data(), rest().data() + rest().size(), value);
  if (error != std::errc()) fail_expected("a number");
  position_ += static_cast<std::size_t>(end - rest().data());
  return value;
}

std::string Lexer::hex() {
  expect("0x");
  std::size_t length = 0;
  while (length < rest().size() && std::isxdigit(static_cast<unsigned char>(rest()[length])) != 0) ++length;
  std::string digits(rest().substr(0, length));
  if (length % 2 != 0) fail("an odd number of hexadecimal digits; each byte takes two.");
  position_ += length;
  return digits;
}

// Up to the brace that closes it.
void Lexer::skip_graph() {
  const std::size_t start = position_;
  std::size_t depth = 0;
  do {
    if (at_end()) fail_at(start, "this graph has no closing brace.");
    if (peek("\"")) {
      quoted();
      continue;
    }
    if (accept("{")) {
      ++depth;
    } else if (accept("}")) {
      if (depth == 0) fail_at(start, "this graph has no opening brace.");
      if (--depth == 0) return;
    } else {
      ++position_;
    }
  } while (true);
}

void Lexer::skip_value() {
  if (peek_word("graph")) return skip_graph();
  if (!accept("[")) {
    word("a value");
    return;
  }
  while (!accept("]")) {
    skip_value();
    if (!accept(",") && !peek("]")) fail_expected("\",\" or \"]\"");
  }
}

void Lexer::fail(const std::string& message) {
  skip_blanks();
  fail_at(position_, message);
}

void Lexer::fail_at(std::size_t position, const std::string& message) const {
  std::string_view before = text_.substr(0, position);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  auto column = position - (before.rfind('\n') + 1) + 1;  // npos + 1 == 0
  throw UserError("line {}, column {}: {}", line, column, message);
}

void Lexer::fail_expected(std::string_view what) {
  skip_blanks();
  std::string found =
      at_end() ? "the end of the text" : fmt::format("\"{}\"", rest().substr(0, rest().find_first_of(" \n")));
  fail(fmt::format("expected {}, found {}.", what, found));
}

}  // namespace aspen
