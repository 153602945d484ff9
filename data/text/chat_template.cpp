#include "data/text/chat_template.hpp"

#include <algorithm>
#include <set>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/chat_encoder.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::array all_speakers = {Speaker::system, Speaker::user, Speaker::assistant};

ChatTemplate chatml() {
  ChatTemplate made{.name = "chatml"};
  for (const Speaker speaker : all_speakers)
    made.turns[static_cast<std::size_t>(speaker)] = {
        .before = fmt::format("<|im_start|>{}\n", to_string(speaker)), .after = "<|im_end|>\n"};
  return made;
}

ChatTemplate llama3() {
  ChatTemplate made{.name = "llama3", .start = "<|begin_of_text|>", .trims = true};
  for (const Speaker speaker : all_speakers)
    made.turns[static_cast<std::size_t>(speaker)] = {
        .before = fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", to_string(speaker)),
        .after = "<|eot_id|>"};
  return made;
}

// --- templates as texts ---

// A text between fields, or the name of a field: "user" for {user}.
struct TemplatePart {
  bool is_field = false;
  std::string text{};
};

[[noreturn]] void refuse_template(const std::string& fact) {
  throw InputError(
      fmt::format("{}; expected chatml, llama3, or a text with {{role}} and "
                  "{{content}}, or with {{user}} and {{assistant}}",
                  fact));
}

std::vector<TemplatePart> parts_of(std::string_view text) {
  std::vector<TemplatePart> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_brace = text[i] == '{' || text[i] == '}';
    if (is_brace && i + 1 < text.size() && text[i + 1] == text[i]) {
      parts.back().text += text[i++];
      continue;
    }
    if (!is_brace) {
      parts.back().text += text[i];
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (text[i] == '}' || end == std::string_view::npos)
      refuse_template(fmt::format("byte {}: a single '{}'; write the character twice", i, text[i]));
    parts.push_back({true, std::string(text.substr(i + 1, end - i - 1))});
    parts.push_back({});
    i = end;
  }
  return parts;
}

// Returns how often a field occurs.
std::int64_t uses(const std::vector<TemplatePart>& parts, std::string_view field) {
  return std::ranges::count_if(
      parts, [&](const TemplatePart& part) { return part.is_field && part.text == field; });
}

// Returns the template of a text with the fields {role} and {content}, and no others.
ChatTemplate of_messages(const std::vector<TemplatePart>& parts) {
  ChatTemplate made;
  for (const Speaker speaker : all_speakers) {
    ChatTurn& turn = made.turns[static_cast<std::size_t>(speaker)];
    std::string* into = &turn.before;
    for (const TemplatePart& part : parts)
      if (part.is_field && part.text == "content")
        into = &turn.after;
      else
        *into += part.is_field ? to_string(speaker) : part.text;
  }
  return made;
}

// Returns the white space at the beginning of a text.
std::string first_space(const std::string& text) {
  return text.substr(0, std::min(text.size(), text.find_first_not_of(" \t\r\n")));
}

// Returns the template of a text with {user} and {assistant}. Throws InputError for other fields or
// another order.
ChatTemplate of_exchanges(const std::vector<TemplatePart>& parts) {
  const bool takes_system = uses(parts, "system") > 0;
  const std::size_t user = takes_system ? 3 : 1;  // texts have even indices
  if (parts.size() != user + 4 || (takes_system && parts[1].text != "system") ||
      parts[user].text != "user" || parts[user + 2].text != "assistant")
    refuse_template("its fields are not {user} and then {assistant}, or {system} before both");
  ChatTemplate made{.is_exchange = true, .takes_system = takes_system};
  auto& [system, question, answer] = made.turns;
  question.before = parts[user - 1].text;
  if (takes_system) {
    system = {.before = parts[0].text, .after = first_space(question.before)};
    question.before.erase(0, system.after.size());
  }
  answer = {.before = parts[user + 1].text, .after = parts[user + 3].text};
  return made;
}

ChatTemplate parsed_template(const std::string& text) {
  if (text == "chatml") return chatml();
  if (text == "llama3") return llama3();
  const std::vector<TemplatePart> parts = parts_of(text);
  for (const TemplatePart& part : parts) {
    constexpr std::array known = {"role", "content", "system", "user", "assistant"};
    if (part.is_field && std::ranges::find(known, part.text) == known.end())
      refuse_template(fmt::format("unknown field {{{}}}", printable(part.text.substr(0, 20))));
  }
  const bool of_one = uses(parts, "content") > 0 || uses(parts, "role") > 0;
  const bool of_two = uses(parts, "user") + uses(parts, "assistant") + uses(parts, "system") > 0;
  if (!of_one && !of_two)
    refuse_template(fmt::format("\"{}\" has no fields", printable(text.substr(0, 40))));
  if (of_one && of_two)
    refuse_template("the template mixes the fields of a message and of an exchange");
  if (of_one && (uses(parts, "content") != 1 || uses(parts, "role") == 0))
    refuse_template("the template needs {role}, and {content} exactly once");
  ChatTemplate made = of_one ? of_messages(parts) : of_exchanges(parts);
  made.name = text;
  made.begins_as_texts = true;
  return made;
}

}  // namespace

ChatTemplate read_chat_template(const std::string& text, const std::string& place) try {
  return parsed_template(text);
} catch (const InputError& error) {
  throw InputError(fmt::format("{}: {}", place, error.what()));
}

std::vector<std::string> marks_of(std::string_view text) {
  std::vector<std::string> marks;
  std::set<std::string> seen;
  for (std::size_t begin = text.find("<|"); begin != std::string_view::npos;
       begin = text.find("<|", begin + 1)) {
    const std::size_t end = text.find_first_of("<>| \t\r\n", begin + 2);
    if (end == std::string_view::npos || text.substr(end, 2) != "|>") continue;
    std::string mark(text.substr(begin, end + 2 - begin));
    if (seen.insert(mark).second) marks.push_back(std::move(mark));
  }
  return marks;
}

std::vector<std::string> special_names(const ChatTemplate& chat_template) {
  std::string text = chat_template.start;
  for (const ChatTurn& turn : chat_template.turns) text += turn.before + " " + turn.after + " ";
  return marks_of(text);
}

std::string to_json(const ChatTemplate& chat_template) {
  Json turns = Json::array();
  for (const ChatTurn& turn : chat_template.turns) turns.push_back({turn.before, turn.after});
  return Json{{"name", chat_template.name},
              {"start", chat_template.start},
              {"turns", turns},
              {"default_system", chat_template.default_system},
              {"trims", chat_template.trims},
              {"is_exchange", chat_template.is_exchange},
              {"takes_system", chat_template.takes_system},
              {"begins_as_texts", chat_template.begins_as_texts}}
      .sort_keys()
      .dump();
}

ChatTemplate chat_template_from_json(std::string_view json, const std::string& place) {
  const Json kept = parse_json(json, place);
  try {
    ChatTemplate made{.name = kept.at("name").get<std::string>(),
                      .start = kept.at("start").get<std::string>(),
                      .default_system = kept.at("default_system").get<std::string>(),
                      .trims = kept.at("trims").get<bool>(),
                      .is_exchange = kept.at("is_exchange").get<bool>(),
                      .takes_system = kept.at("takes_system").get<bool>(),
                      .begins_as_texts = kept.at("begins_as_texts").get<bool>()};
    for (std::size_t i = 0; i < made.turns.size(); ++i)
      made.turns[i] = {kept.at("turns").at(i).at(0).get<std::string>(),
                       kept.at("turns").at(i).at(1).get<std::string>()};
    return made;
  } catch (const Json::exception&) {
    throw InputError(
        fmt::format("{}: the chat template is damaged; use another checkpoint", place));
  }
}

std::string written(const ChatTemplate& chat_template, const std::vector<Message>& messages) {
  std::string text;
  for (const ChatPiece& piece : pieces_of(chat_template, messages)) text += piece.text;
  return text;
}

}  // namespace tapestry
