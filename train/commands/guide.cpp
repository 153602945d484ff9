#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <utility>

#include "autograd/check.hpp"
#include "data/text/unicode.hpp"
#include "train/commands/command.hpp"
#include "train/commands/guide_pages.hpp"
#include "train/config/config.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

constexpr const char *page_end = ".md", *course = "learn/";

std::string name_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

std::vector<std::string> page_names() {
  std::vector<std::string> names;
  for (const auto& [path, text] : guide_pages()) names.push_back(name_of(path));
  return names;
}

// Returns the anchor of a heading, as in links: "Tokenizers and shards" is tokenizers-and-shards.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading)
    if (c == ' ' || c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  return anchor;
}

std::size_t level_of(const std::string& line) {  // of a heading; 0 of another line
  const std::size_t level = line.find_first_not_of('#');
  return level != line.npos && level > 0 && line[level] == ' ' ? level : 0;
}

// Returns what a terminal shows of a link in the page `from`: of one to a page its command's words,
// of others in the repository the text alone.
std::string shown_link(const std::string& text, const std::string& target,
                       const std::string& from) {
  const std::size_t hash = std::min(target.find('#'), target.size());
  if (target.starts_with("http")) return fmt::format("{} <{}>", text, target);
  const std::filesystem::path folder = std::filesystem::path(from).parent_path();
  const std::string path = (folder / target.substr(0, hash)).lexically_normal().string();
  if (!guide_pages().contains(path)) return text;
  return fmt::format("{} [{}{}]", text, name_of(path), target.substr(hash));
}

// Returns lines of the page `from` as text for a terminal.
std::string readable(std::string lines, const std::string& from) {
  for (std::size_t middle; (middle = lines.find("](")) != lines.npos;) {
    std::size_t begin = lines.rfind('[', middle);
    const std::size_t end = lines.find(')', middle);
    if (begin == lines.npos || end == lines.npos) break;
    const std::string text = lines.substr(begin + 1, middle - begin - 1);
    std::string target = lines.substr(middle + 2, end - middle - 2);
    std::erase_if(target, [](unsigned char c) { return std::isspace(c) != 0; });  // wrapped
    const bool is_picture = begin > 0 && lines[begin - 1] == '!';
    if (is_picture) --begin;
    lines.replace(begin, end + 1 - begin,
                  is_picture ? fmt::format("(picture: {})", text) : shown_link(text, target, from));
  }
  return lines;
}

// Returns what a terminal shows of a line that is an element of HTML with a picture: its text.
std::string without_html(const std::string& line) {
  const std::string key = "alt=\"";
  const std::size_t alt = line.starts_with("<img ") ? line.find(key) : line.npos;
  if (alt == line.npos) return line;
  const std::size_t begin = alt + key.size();
  return fmt::format("(picture: {})", line.substr(begin, line.find('"', begin) - begin));
}

// Calls `use` with each line of a page but comments, and with whether it stands in a block of code.
template <class Use>
void for_lines(const std::string& page, const Use& use) {
  std::istringstream lines(page);
  bool is_code = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_fence = line.starts_with("```");
    if (is_fence) is_code = !is_code;
    if (is_fence || (!is_code && line.starts_with("<!--"))) continue;
    use(is_code ? line : without_html(line), is_code);
  }
}

// Returns the anchors of a page's sections.
std::vector<std::string> sections_of(const std::string& page) {
  std::vector<std::string> anchors;
  for_lines(page, [&](const std::string& line, bool is_code) {
    if (const std::size_t level = level_of(line); level > 0 && !is_code)
      anchors.push_back(anchor_of(line.substr(level + 1)));
  });
  return anchors;
}

// Returns the page at `path`, or its section with what is below it, as text for a terminal.
std::string text_of(const std::string& path, const std::string& section) {
  std::size_t within = section.empty() ? 1 : 0;  // the level of the section that is printed
  std::string text, prose;
  const auto add_prose = [&] { text += readable(std::exchange(prose, ""), path); };
  for_lines(guide_pages().at(path), [&](const std::string& line, bool is_code) {
    const std::size_t level = is_code ? 0 : level_of(line);
    if (level > 0 && !section.empty()) {
      const bool is_wanted = anchor_of(line.substr(level + 1)) == section;
      if (is_wanted || level <= within) within = is_wanted ? level : 0;
    }
    if (within == 0) return;
    if (is_code) add_prose();
    (is_code ? text : prose) += (is_code ? "    " : "") + line + "\n";
  });
  add_prose();
  return text;
}

// Returns the five pages that contain a word most often, whatever its case.
std::vector<std::string> pages_with(const std::string& word) {
  const std::string wanted = lower_case(word);
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const auto& [path, page] : guide_pages()) {
    const std::string text = lower_case(page);
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = text.find(wanted, at)) != text.npos; at += wanted.size())
      ++count;
    if (count > 0) found.emplace_back(-count, name_of(path));
  }
  std::ranges::sort(found);
  if (found.size() > 5) found.resize(5);
  std::vector<std::string> pages;
  for (auto& [count, page] : found) pages.push_back(std::move(page));
  return pages;
}

// Returns "PAGE#SECTION" of the only section of the guide that is called `name`, and `name` if no
// page or section has a similar name or contains it. Throws InputError that lists these, or the
// several sections.
std::string only_section(const std::string& name) {
  const std::string anchor = anchor_of(name);
  if (anchor.empty()) return name;
  std::vector<std::string> equal, similar;
  for (const auto& [path, text] : guide_pages()) {
    const std::string page = name_of(path);
    if (page.find(anchor) != page.npos) similar.push_back(page);
    for (const std::string& section : sections_of(text))
      if (section.find(anchor) != section.npos)
        (section == anchor ? equal : similar).push_back(page + "#" + section);
  }
  if (equal.size() == 1) return equal.front();
  expect_input(equal.empty(), "{}: a section of several pages; expected one of {}", name,
               fmt::join(equal, ", "));
  for (std::string& page : pages_with(name))
    if (std::ranges::count(similar, page) == 0) similar.push_back(std::move(page));
  expect_input(similar.empty(), "{}: no page or section of the guide; expected one of {}", name,
               fmt::join(similar, ", "));
  return name;
}

// Returns the path of the page that a user calls `page`: "learn/attention.md" for "attention"; ""
// if there is none.
std::string path_of(std::string page) {
  if (page.ends_with(page_end)) page.resize(page.size() - std::string(page_end).size());
  for (const std::string& path : {course + page + page_end, page + page_end})
    if (guide_pages().contains(path)) return path;
  return "";
}

class Guide final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("PAGE", words_,
                     "a page of the guide, such as learn/attention, or a section, such as onnx "
                     "or results#report (default: the list of pages)",
                     false);
  }

  int run() override {
    expect_input(words_.size() <= 1, "unexpected {}; expected one page", words_.back());
    std::string name = words_.empty() ? "README" : words_.front();
    if (name.find('#') == name.npos && path_of(name).empty()) name = only_section(name);
    const std::size_t hash = std::min(name.find('#'), name.size());
    const std::string page = name.substr(0, hash), path = path_of(page);
    expect_input(!path.empty(), "{}: no page of the guide{} (tapestry guide lists the pages)", name,
                 did_you_mean(page, page_names()));
    const std::string section = name.substr(std::min(hash + 1, name.size()));
    const std::vector<std::string> sections = sections_of(guide_pages().at(path));
    expect_input(section.empty() || std::ranges::count(sections, section) > 0,
                 "{}: the page {} has no section {}{}", name, name_of(path), section,
                 did_you_mean(section, sections));
    print_lines(text_of(path, section));
    return 0;
  }

 private:
  std::vector<std::string> words_{};
};

const RegisterCommand<Guide> guide_command("guide", "print a page of the user guide");

}  // namespace

std::string page_explaining(const std::string& key) {
  for (const auto& [path, text] : guide_pages())
    for (std::size_t at = 0; (at = text.find("\nKeys: ", at)) != text.npos; ++at)
      if (text.substr(at, text.find("\n\n", at) - at).find("`" + key + "`") != text.npos)
        return name_of(path);
  return "";
}

}  // namespace tapestry
