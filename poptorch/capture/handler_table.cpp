#include "poptorch/capture/call.h"

namespace poptorch {

void register_all_handlers(HandlerTable& table);  // written by CMake from the files of poptorch/aten

void HandlerTable::add(std::string_view name, Handler handler) {
  const auto [place, is_new] = handlers_.emplace(std::string(name), std::move(handler));
  if (!is_new) throw aspen::InternalError("{} has two handlers", place->first);
}

void HandlerTable::add_complex(std::string_view name, Handler handler) {
  add(name, std::move(handler));
  complex_.emplace(name);
}

const Handler* HandlerTable::find(std::string_view name) const {
  const auto found = handlers_.find(name);
  return found == handlers_.end() ? nullptr : &found->second;
}

void HandlerTable::remove(std::string_view name) {
  const auto found = handlers_.find(name);
  if (found == handlers_.end()) throw aspen::UserError("[handlers] {} has no handler to remove.", name);
  handlers_.erase(found);
  complex_.erase(std::string(name));
}

std::vector<std::string> HandlerTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, handler] : handlers_) names.push_back(name);
  return names;
}

void decline(std::string_view why) { throw Declined(std::string(why)); }

HandlerTable make_handler_table() {
  HandlerTable table;
  register_all_handlers(table);
  return table;
}

HandlerTable& handler_table() {
  static HandlerTable table = make_handler_table();
  return table;
}

void restore_handlers() { handler_table() = make_handler_table(); }

}  // namespace poptorch
