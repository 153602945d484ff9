#include <utility>

#include "data/text/chat_template.hpp"

// Templates in Jinja of one form: its texts are variables that are set first, and what follows is
// the same for all, so that such a template is read back without running it.
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

// Calls `visit` with the name and the value, a text or a truth value, of each variable in turn.
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
  // Some programs drop the end of the last line.
  if (!is_own || (jinja != body && jinja != body.substr(0, body.size() - 1))) return std::nullopt;
  ChatTemplate made = std::move(variables.chat_template);
  made.begins_as_texts = !variables.tokens.start.empty();
  for (const char* known : {"chatml", "llama3"})
    if (read_chat_template(known).turns == made.turns) made.name = known;
  return made;
}

}  // namespace tapestry
