#include "aspen/compiler/ir/attr_parser.h"

#include <map>

#include "aspen/compiler/ir/parser.h"

namespace aspen {
namespace {

// Remembers where the value of each name begins; the visitor then reads the ones the struct asks for.
class AttrParser final : public AttrVisitor {
 public:
  AttrParser(Lexer& lexer, const OpDef& def, const OpRegistry& ops) : lexer_(lexer), def_(def), ops_(ops) {}

  Attrs run() {
    if (!lexer_.peek("{")) return def_.default_attrs();
    find_values();
    Attrs result = def_.default_attrs().visited(*this);
    for (const auto& [name, place] : places_) {
      lexer_.fail_at(place.name, fmt::format("op {} has no attribute \"{}\"; {}", def_.name(), name, known()));
    }
    lexer_.go_to(end_);
    return result;
  }

  void operator()(const char* name, std::int64_t& field) override {
    if (begin(name)) finish(field = lexer_.integer());
  }
  void operator()(const char* name, double& field) override {
    if (begin(name)) finish(field = lexer_.number());
  }
  void operator()(const char* name, bool& field) override {
    if (!begin(name)) return;
    if (!lexer_.peek_word("true") && !lexer_.peek_word("false")) lexer_.fail_expected("true or false");
    finish(field = lexer_.word("true or false") == "true");
  }
  void operator()(const char* name, DType& field) override {
    if (!begin(name)) return;
    std::size_t start = lexer_.next_position();
    try {
      finish(field = dtype_from_name(lexer_.word("an element type")));
    } catch (const UserError& e) {
      lexer_.fail_at(start, e.what());
    }
  }
  void operator()(const char* name, std::string& field) override {
    if (!begin(name)) return;
    if (!lexer_.peek("\"")) lexer_.fail_expected("a string in quotes");
    finish(field = lexer_.quoted());
  }
  void operator()(const char* name, std::vector<std::int64_t>& field) override {
    if (begin(name)) finish(field = list<std::int64_t>([&] { return lexer_.integer(); }));
  }
  void operator()(const char* name, std::vector<double>& field) override {
    if (begin(name)) finish(field = list<double>([&] { return lexer_.number(); }));
  }
  void operator()(const char* name, Blob& field) override {
    if (!begin(name)) return;
    std::string digits = lexer_.hex();
    auto bytes = std::make_shared<std::vector<std::byte>>();
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      bytes->push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    }
    field.bytes = std::move(bytes);
    finish(field);
  }
  void operator()(const char* name, std::shared_ptr<HostFunction>& field) override { function(name, field); }
  void operator()(const char* name, std::shared_ptr<CustomGradient>& field) override { function(name, field); }
  void operator()(const char* name, Body& field) override {
    if (!begin(name)) return;
    if (lexer_.accept("\"\"")) return finish(field = nullptr);
    finish(field = parse_graph(lexer_, ops_));
  }

 private:
  template <class F>
  void function(const char* name, std::shared_ptr<F>& field) {
    if (!begin(name)) return;
    if (lexer_.accept("\"\"")) return finish(field = nullptr);
    lexer_.fail(fmt::format("attribute \"{}\" of {} is a function of the front end; it has no text form to read back.",
                            name, def_.name()));
  }

  struct Place {
    std::size_t name, value;
  };

  // Notes where each value starts and where the closing brace is.
  void find_values() {
    lexer_.expect("{");
    while (!lexer_.accept("}")) {
      std::size_t start = lexer_.next_position();
      std::string name = lexer_.word("the name of an attribute");
      lexer_.expect("=");
      if (!places_.emplace(name, Place{start, lexer_.position()}).second) {
        lexer_.fail_at(start, fmt::format("attribute \"{}\" is given twice.", name));
      }
      lexer_.skip_value();
      if (!lexer_.accept(",") && !lexer_.peek("}")) lexer_.fail_expected("\",\" or \"}\"");
    }
    end_ = lexer_.position();
  }

  bool begin(const char* name) {
    known_ += (known_.empty() ? "" : ", ") + std::string(name);
    auto found = places_.find(name);
    if (found == places_.end()) return false;
    lexer_.go_to(found->second.value);
    places_.erase(found);
    return true;
  }

  // Called with the value just read: nothing may follow it before the next attribute.
  template <class T>
  void finish(const T&) {
    if (!lexer_.peek(",") && !lexer_.peek("}")) lexer_.fail_expected("\",\" or \"}\"");
  }

  template <class T, class F>
  std::vector<T> list(F&& item) {
    std::vector<T> result;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!result.empty()) lexer_.expect(",");
      result.push_back(item());
    }
    return result;
  }

  std::string known() const { return known_.empty() ? "it has none." : "it has: " + known_ + "."; }

  Lexer& lexer_;
  const OpDef& def_;
  const OpRegistry& ops_;
  std::map<std::string, Place, std::less<>> places_;
  std::string known_;
  std::size_t end_ = 0;
};

}  // namespace

Attrs parse_attrs(Lexer& lexer, const OpDef& def, const OpRegistry& ops) { return AttrParser(lexer, def, ops).run(); }

}  // namespace aspen
