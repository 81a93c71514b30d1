// Reads words, numbers and quoted strings from text and knows where it stands. Used by the graph parser and the
// attribute parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "aspen/base/error.h"

namespace aspen {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::size_t position() const { return position_; }
  std::size_t next_position() {
    skip_blanks();
    return position_;
  }  // of the next token
  void go_to(std::size_t position) { position_ = position; }

  // Each of these skips blanks and comments first.
  bool at_end();
  bool peek(std::string_view token);    // whether `token` comes next
  bool accept(std::string_view token);  // takes it if so
  void expect(std::string_view token);
  bool peek_word(std::string_view word);  // as peek, but not a part of a longer word
  bool accept_word(std::string_view word);
  std::string word(std::string_view what);  // bare or quoted; `what` says in an error what was expected
  std::string quoted();
  std::int64_t integer();
  double number();  // "1e-05", "-inf", "nan"

  std::string hex();  // "0x" followed by digits, without the "0x"
  void skip_value();  // a word, string, number, list or graph

  // Throws "line L, column C: <message>" about the place where the next token begins, or a given place.
  [[noreturn]] void fail(const std::string& message);
  [[noreturn]] void fail_at(std::size_t position, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view what);

 private:
  void skip_blanks();
  void skip_graph();
  std::string_view rest() const { return text_.substr(position_); }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace aspen
