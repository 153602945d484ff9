#include "data/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"

namespace tapestry {

// --- reading ---

namespace {

// A builder of a value from the events of the library's parser.
class JsonBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonBuilder(int most_depth, const JsonValue::TakeMember* take = nullptr)
      : most_depth_(most_depth), take_(take) {}

  JsonValue& root() { return root_; }

  bool null() override { return put({}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override {
    return false;
  }  // JSON texts have no binary values

  bool start_object(std::size_t) override { return start(JsonValue::object()); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return start(JsonValue::array()); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    constexpr int syntax_error = 101;  // nlohmann's number of this error
    if (error.id == syntax_error) throw JsonValue::parse_error(error.what(), position);
    throw JsonValue::exception(error.what());
  }

 private:
  struct Open {  // an array, or an object and the name of the member that is read
    JsonValue value;
    std::string key{};
  };

  void expect_depth() const {
    if (std::ssize(open_) > most_depth_)
      throw JsonValue::too_deep(fmt::format(
          "arrays and objects are nested more than {} deep; expected less nesting", most_depth_));
  }

  bool start(JsonValue value) {
    expect_depth();
    open_.push_back({std::move(value)});
    return true;
  }

  bool end() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  bool put(JsonValue value) {
    expect_depth();
    if (open_.empty())
      root_ = std::move(value);
    else if (Open& within = open_.back(); within.value.is_array())
      within.value.push_back(std::move(value));
    else if (take_ && open_.size() == 1)
      (*take_)(within.key, value);
    else
      within.value[within.key] = std::move(value);
    return true;
  }

  int most_depth_;
  const JsonValue::TakeMember* take_;
  std::vector<Open> open_{};
  JsonValue root_{};
};

}  // namespace

JsonValue JsonValue::parse(std::string_view text) {
  JsonBuilder builder(most_depth);
  nlohmann::json::sax_parse(text, &builder);
  return std::move(builder.root());
}

JsonValue JsonValue::parse_or_null(std::string_view text) try {
  return parse(text);
} catch (const exception&) {
  return nullptr;
}

bool JsonValue::parse_members(std::string_view text, int depth, const TakeMember& take) {
  JsonBuilder builder(depth, &take);
  nlohmann::json::sax_parse(text, &builder);
  return builder.root().is_object();
}

int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_string && character == '\\')
      ++i;  // skip the escaped character
    else if (character == '"')
      in_string = !in_string;
    else if (!in_string && (character == '[' || character == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (character == ']' || character == '}'))
      depth = std::max(depth - 1, 0);
  }
  return deepest;
}

bool has_duplicate_keys(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> objects;  // keys of the objects that are open
  bool found = false;
  const auto watch = [&](int, Event event, nlohmann::json& value) {
    if (event == Event::object_start) objects.emplace_back();
    if (event == Event::object_end) objects.pop_back();
    if (event == Event::key) found |= !objects.back().insert(value.get<std::string>()).second;
    return true;
  };
  [[maybe_unused]] const auto parsed = nlohmann::json::parse(text, watch, false);
  return found;
}

JsonValue parse_json(std::string_view text, const std::string& path) {
  const int depth = json_depth(text);
  expect_input(
      depth <= max_json_depth,
      "{}: arrays and objects are nested {} deep; expected at most {}; create the file again", path,
      depth, max_json_depth);
  try {
    return std::move(JsonValue::parse(text).sort_keys());
  } catch (const JsonValue::parse_error& error) {
    const std::size_t byte = std::min(error.byte, text.size());
    throw InputError(fmt::format("{}: line {}: is not JSON; copy or create the file again", path,
                                 1 + std::ranges::count(text.substr(0, byte), '\n')));
  } catch (const JsonValue::exception&) {
    throw InputError(
        fmt::format("{}: a number is too large for a double; copy or create the file again", path));
  }
}

// --- writing ---

struct JsonStyle {
  int indent = -1;
  char fill = ' ';
  bool ascii = false;
  nlohmann::json::error_handler_t handler = nlohmann::json::error_handler_t::strict;
};

namespace {

void write_string(std::string& text, const std::string& value, const JsonStyle& style) try {
  const bool is_plain = std::ranges::all_of(
      value, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain)
    text.append(1, '"').append(value).append(1, '"');
  else
    text += nlohmann::json(value).dump(-1, ' ', style.ascii, style.handler);
} catch (const nlohmann::json::exception& error) {
  throw JsonValue::exception(error.what());
}

void start_line(std::string& text, const JsonStyle& style, int level) {
  if (style.indent < 0) return;
  text += '\n';
  text.append(static_cast<std::size_t>(level) * style.indent, style.fill);
}

}  // namespace

void JsonValue::write(std::string& text, const JsonStyle& style, int level) const {
  switch (type_) {
    case Type::null:
      text += "null";
      return;
    case Type::boolean:
      text += payload_.boolean ? "true" : "false";
      return;
    case Type::integer:
      text += std::to_string(payload_.integer);
      return;
    case Type::natural:
      text += std::to_string(static_cast<std::uint64_t>(payload_.integer));
      return;
    case Type::real:
      text += nlohmann::json(payload_.real).dump();
      return;
    case Type::string:
      return write_string(text, *payload_.string, style);
    case Type::array:
    case Type::object:
      break;
  }
  text += is_array() ? '[' : '{';
  bool is_first = true;
  const auto start = [&] {
    if (!is_first) text += ',';
    is_first = false;
    start_line(text, style, level + 1);
  };
  for (const JsonValue& element : *this) {
    start();
    element.write(text, style, level + 1);
  }
  for (const auto& [name, value] : items()) {
    start();
    write_string(text, name, style);
    text += style.indent < 0 ? ":" : ": ";
    value.write(text, style, level + 1);
  }
  if (!is_first) start_line(text, style, level);
  text += is_array() ? ']' : '}';
}

std::string JsonValue::dump(int indent, char fill, bool ascii, error_handler_t handler) const {
  using Handler = nlohmann::json::error_handler_t;
  std::string text;
  write(text,
        {.indent = indent,
         .fill = fill,
         .ascii = ascii,
         .handler = handler == error_handler_t::replace ? Handler::replace : Handler::strict},
        0);
  return text;
}

std::string brief(const JsonValue& json) {
  constexpr std::size_t most = 60;
  const std::string text = json.dump(-1, ' ', true, JsonValue::error_handler_t::replace);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

JsonValue json_object_of(const FileLine& line) {
  constexpr std::size_t max_line_bytes = std::size_t{1} << 24;
  line.expect(line.text.size() <= max_line_bytes,
              "the line has {} bytes; expected at most {}; shorten it", line.text.size(),
              max_line_bytes);
  line.expect(json_depth(line.text) <= max_json_depth,
              "arrays and objects are nested more than {} deep; remove the line", max_json_depth);
  JsonValue object;
  try {
    object = JsonValue::parse(line.text).sort_keys();
  } catch (const JsonValue::parse_error&) {
    line.fail(fmt::format("not JSON: {}; expected an object per line",
                          printable(line.text.substr(0, 60))));
  } catch (const JsonValue::exception&) {
    line.fail("a number is too large for a double; correct the number");
  }
  line.expect(object.is_object(), "found {}; expected an object", brief(object));
  return object;
}

std::string member_names(const JsonValue& object) {
  std::string names;
  for (const auto& [name, value] : object.items())
    names += (names.empty() ? "" : ", ") + brief(name);
  return names.empty() ? "none" : names.size() <= 80 ? names : names.substr(0, 80) + "...";
}

}  // namespace tapestry
