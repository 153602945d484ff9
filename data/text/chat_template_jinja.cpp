#include <algorithm>
#include <array>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/chat_template.hpp"
#include "data/text/printable.hpp"

// Templates are written in Jinja in one form: it sets variables for the texts first, and the rest
// is the same for all templates, so that templates can be read back without being executed.
namespace tapestry {
namespace {

constexpr std::string_view body = R"({{- text_start + start -}}
{%- if default_system and messages[0]['role'] != 'system' -%}
{{- system_before + default_system + system_after -}}
{%- endif -%}
{%- for message in messages -%}
{%- set content = message['content'] | trim if trims else message['content'] -%}
{%- if message['role'] == 'system' -%}
{%- if not takes_system or (is_exchange and not loop.first) -%}
{{- raise_exception('the chat template has no place for this system message') -}}
{%- endif -%}
{{- system_before + content + system_after -}}
{%- elif message['role'] == 'user' -%}
{{- user_before + content + user_after -}}
{%- elif message['role'] == 'assistant' -%}
{{- assistant_before + content + answer_end + assistant_after -}}
{%- else -%}
{{- raise_exception('unknown role: ' + message['role']) -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- assistant_before -}}
{%- endif -%}
)";

// The values of the variables.
struct Variables {
  ChatTemplate chat_template{};
  TemplateTokens tokens{};
};

// Calls `visit` with the name and the value, a text or a boolean, of each variable.
template <class V, class Visit>
void visit_variables(V& variables, const Visit& visit) {
  auto& chat_template = variables.chat_template;
  auto& [system, user, assistant] = chat_template.turns;
  visit("text_start", variables.tokens.start);
  visit("start", chat_template.start);
  visit("system_before", system.before);
  visit("system_after", system.after);
  visit("user_before", user.before);
  visit("user_after", user.after);
  visit("assistant_before", assistant.before);
  visit("answer_end", variables.tokens.answer_end);
  visit("assistant_after", assistant.after);
  visit("default_system", chat_template.default_system);
  visit("trims", chat_template.trims);
  visit("is_exchange", chat_template.is_exchange);
  visit("takes_system", chat_template.takes_system);
}

constexpr std::pair<char, char> escapes[] = {
    {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\'', '\''}, {'\\', '\\'}};

std::string literal(const std::string& text) {
  std::string made = "'";
  for (const char character : text) {
    char escaped = 0;
    for (const auto& [plain, letter] : escapes)
      if (character == plain) escaped = letter;
    if (escaped) made += '\\';
    made += escaped ? escaped : character;
  }
  return made + "'";
}

std::string literal(bool value) { return value ? "true" : "false"; }

bool read_literal(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool read_literal(std::string_view text, std::string& value) {
  if (text.size() < 2 || !text.starts_with('\'') || !text.ends_with('\'')) return false;
  text = text.substr(1, text.size() - 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    char character = text[i];
    if (character == '\'') return false;
    if (character == '\\') {
      if (++i == text.size()) return false;
      const char letter = text[i];
      character = 0;
      for (const auto& [plain, escaped] : escapes)
        if (letter == escaped) character = plain;
      if (character == 0) return false;
    }
    value += character;
  }
  return true;
}

std::string assignment(const char* name) { return std::string("{%- set ") + name + " = "; }

constexpr std::string_view assignment_end = " -%}\n";

}  // namespace

std::string to_jinja(const ChatTemplate& chat_template, const TemplateTokens& tokens) {
  const Variables variables{chat_template, tokens};
  std::string jinja;
  visit_variables(variables, [&](const char* name, const auto& value) {
    jinja.append(assignment(name)).append(literal(value)).append(assignment_end);
  });
  return jinja.append(body);
}

std::optional<ChatTemplate> chat_template_from_jinja(std::string_view jinja) {
  Variables variables;
  bool is_own = true;
  visit_variables(variables, [&](const char* name, auto& value) {
    const std::string begin = assignment(name);
    const std::size_t end = jinja.find(assignment_end, begin.size());
    is_own = is_own && jinja.starts_with(begin) && end != std::string_view::npos &&
             read_literal(jinja.substr(begin.size(), end - begin.size()), value);
    if (is_own) jinja.remove_prefix(end + assignment_end.size());
  });
  // Some programs remove the line end of the last line.
  if (!is_own || (jinja != body && jinja != body.substr(0, body.size() - 1))) return std::nullopt;
  ChatTemplate made = std::move(variables.chat_template);
  made.begins_as_texts = !variables.tokens.start.empty();
  for (const char* known : {"chatml", "llama3"})
    if (read_chat_template(known).turns == made.turns) made.name = known;
  return made;
}

// Recognizes the known templates in Jinja without executing them: whatever could write another text
// is found, and refused by name.
namespace {

constexpr std::size_t max_template_bytes = std::size_t{1} << 18;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the text with a line end for each backslash followed by n.
std::string with_line_ends(std::string_view text) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text.substr(i, 2) == "\\n")
      made += '\n', ++i;
    else
      made += text[i];
  return made;
}

// Returns the text outside of tags, which is written unchanged, after the white-space control that
// transformers uses (trim_blocks and lstrip_blocks). Throws InputError for a tag without an end.
std::string text_outside_tags(std::string_view jinja) {
  std::string outside;
  bool trims_after = false, drops_line_end = false;
  while (!jinja.empty()) {
    std::size_t begin = jinja.find('{');
    while (begin != std::string_view::npos && begin + 1 < jinja.size() &&
           std::string_view("{%#").find(jinja[begin + 1]) == std::string_view::npos)
      begin = jinja.find('{', begin + 1);
    const bool is_last = begin == std::string_view::npos || begin + 1 >= jinja.size();
    std::string_view text = jinja.substr(0, is_last ? jinja.size() : begin);
    const bool is_output = !is_last && jinja[begin + 1] == '{';
    const bool trims_before = !is_last && jinja.substr(begin + 2, 1) == "-";
    if (drops_line_end && text.starts_with("\n")) text.remove_prefix(1);
    while (trims_after && !text.empty() && has(" \t\r\n", text.substr(0, 1))) text.remove_prefix(1);
    while (trims_before && !text.empty() && has(" \t\r\n", text.substr(text.size() - 1)))
      text.remove_suffix(1);
    if (!is_output)  // lstrip_blocks
      while (!text.empty() && has(" \t", text.substr(text.size() - 1))) text.remove_suffix(1);
    outside += text;
    if (is_last) return outside;
    const char* close = is_output ? "}}" : jinja[begin + 1] == '%' ? "%}" : "#}";
    const std::size_t end = jinja.find(close, begin + 2);
    expect_input(end != std::string_view::npos, "the template has a tag without an end; close it");
    trims_after = jinja[end - 1] == '-';
    drops_line_end = !is_output;
    jinja.remove_prefix(end + 2);
  }
  return outside;
}

// Returns a form for comparison: with one kind of quotation mark, and with joined literals.
std::string compact(std::string_view jinja) {
  std::string made;
  for (const char character : jinja) {
    const bool after_plus = made.ends_with('+');
    if (after_plus && (character == ' ' || character == '\t')) continue;
    if (character == '+')
      while (made.ends_with(' ') || made.ends_with('\t')) made.pop_back();
    made += character == '"' ? '\'' : character;
    if (made.ends_with("'+'")) made.erase(made.size() - 3);
  }
  return made;
}

// A family of templates: its texts as literals of compact Jinja, and the special tokens that it may
// have, including those of tools.
struct Family {
  ChatTemplate made;
  std::vector<std::string_view> marks;
  std::string role, end, question, system;
};

Family chatml_family() {
  return {.made = read_chat_template("chatml"),
          .marks = {"<|im_start|>", "<|im_end|>"},
          .role = "+'\n",
          .end = "<|im_end|>\n'",
          .question = "<|im_start|>assistant\n'",
          .system = "<|im_start|>system\n"};
}

Family llama3_family() {
  const std::string header = "<|start_header_id|>", end = "<|end_header_id|>\n\n";
  return {.made = read_chat_template("llama3"),
          .marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                    "<|python_tag|>", "<|eom_id|>"},
          .role = "+'" + end,
          .end = "<|eot_id|>'",
          .question = header + "assistant" + end + "'",
          .system = header + "system" + end};
}

// Returns the system message of conversations without one; empty if there is none. Throws
// InputError for a message that is not a literal.
std::string default_system(const std::string& text, const Family& family) {
  for (std::size_t at = text.find(family.system); at != std::string::npos;
       at = text.find(family.system, at + 1)) {
    const std::string_view rest = std::string_view(text).substr(at + family.system.size());
    if (rest.starts_with('\'')) continue;  // a message follows
    const std::size_t end = rest.find(family.end);
    const std::string_view system = rest.substr(0, end);
    expect_input(end != std::string_view::npos && system.find_first_of("'{}<") == system.npos,
                 "the template adds its own system message; expected a literal text");
    return std::string(system);
  }
  return "";
}

// A feature of other templates, which neither family has.
struct Habit {
  std::string_view sign, says;
};
constexpr std::array habits = {
    Habit{"<think>", "the template writes <think>"},
    Habit{"reasoning_content", "the template writes reasoning"},
    Habit{"strftime_now", "the template writes the date"},
    Habit{"date_string", "the template writes a date"},
    Habit{"eos_token", "the template writes eos_token"},
    Habit{".split(", "the template cuts contents"},
    Habit{"replace(", "the template changes contents"},
    Habit{".strip(", "the template changes contents"},
    Habit{".lstrip(", "the template changes contents"},
    Habit{".rstrip(", "the template changes contents"},
    Habit{"|upper", "the template changes contents"},
    Habit{"| upper", "the template changes contents"},
    Habit{"capitalize", "the template changes contents"},
};

void check_habits(const std::string& jinja, const Family& family) {
  for (const Habit& habit : habits) expect_input(!has(jinja, habit.sign), "{}", habit.says);
  expect_input(!has(jinja, "loop.last") || has(jinja, "tool"),
               "the template treats the last message differently; expected equal treatment");
  for (const std::string& mark : marks_of(jinja))
    expect_input(std::ranges::find(family.marks, mark) != family.marks.end(),
                 "the template writes {}; expected only the special tokens of its family",
                 printable(mark.substr(0, 60)));
  const std::string outside = text_outside_tags(jinja);
  expect_input(outside.empty(), "the template writes \"{}\" between its tags; expected only tags",
               printable(std::string_view(outside).substr(0, 40)));
}

}  // namespace

ChatTemplate recognized_chat_template(std::string_view jinja, std::string_view bos_token) {
  expect_input(jinja.size() <= max_template_bytes, "the template has {} bytes; expected at most {}",
               jinja.size(), max_template_bytes);
  require_utf8(jinja, "the template");
  if (std::optional<ChatTemplate> own = chat_template_from_jinja(jinja)) return *std::move(own);
  const bool is_llama3 = has(jinja, "<|start_header_id|>");
  expect_input(is_llama3 || has(jinja, "<|im_start|>"),
               "the template is neither ChatML's nor Llama 3's");
  Family family = is_llama3 ? llama3_family() : chatml_family();
  const std::string text = compact(with_line_ends(jinja));
  check_habits(text, family);
  expect_input(has(text, "role']" + family.role) || has(text, "role" + family.role),
               "a message does not begin as in ChatML or Llama 3");
  expect_input(has(text, family.end), "a message does not end as in ChatML or Llama 3");
  expect_input(has(text, family.question), "an answer does not begin as in ChatML or Llama 3");
  const bool names_start = has(text, "bos_token");
  expect_input(!names_start || (is_llama3 && (bos_token.empty() || family.made.start == bos_token)),
               "the template writes bos_token, \"{}\"; expected <|begin_of_text|>, in Llama 3's "
               "template only",
               printable(bos_token.substr(0, 60)));
  if (!names_start && !has(text, "<|begin_of_text|>")) family.made.start = "";
  family.made.trims = has(text, "| trim") || has(text, "|trim");
  family.made.default_system = default_system(text, family);
  return std::move(family.made);
}

}  // namespace tapestry
