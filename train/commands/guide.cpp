#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "autograd/check.hpp"
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

// Returns a line of the page `from` as text for a terminal.
std::string readable(std::string line, const std::string& from) {
  for (std::size_t middle; (middle = line.find("](")) != line.npos;) {
    std::size_t begin = line.rfind('[', middle);
    const std::size_t end = line.find(')', middle);
    if (begin == line.npos || end == line.npos) break;
    const std::string text = line.substr(begin + 1, middle - begin - 1),
                      target = line.substr(middle + 2, end - middle - 2);
    const bool is_picture = begin > 0 && line[begin - 1] == '!';
    if (is_picture) --begin;
    line.replace(begin, end + 1 - begin,
                 is_picture ? fmt::format("(picture: {})", text) : shown_link(text, target, from));
  }
  return line;
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
  std::string text;
  for_lines(guide_pages().at(path), [&](const std::string& line, bool is_code) {
    const std::size_t level = is_code ? 0 : level_of(line);
    if (level > 0 && !section.empty()) {
      const bool is_wanted = anchor_of(line.substr(level + 1)) == section;
      if (is_wanted || level <= within) within = is_wanted ? level : 0;
    }
    if (within == 0) return;
    text += (is_code ? "    " + line : readable(line, path)) + "\n";
  });
  return text;
}

class Guide final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("PAGE", words_,
                     "a page of the guide, such as learn/attention, or a section as in "
                     "results#report (default: the list of pages)",
                     false);
  }

  int run() override {
    expect_input(words_.size() <= 1, "unexpected {}; expected one page", words_.back());
    const std::string name = words_.empty() ? "README" : words_.front();
    const std::size_t hash = std::min(name.find('#'), name.size());
    std::string page = name.substr(0, hash);
    if (page.ends_with(page_end)) page.resize(page.size() - std::string(page_end).size());
    if (guide_pages().contains(course + page + page_end)) page = course + page;
    const auto found = guide_pages().find(page + page_end);
    expect_input(found != guide_pages().end(),
                 "{}: no page of the guide{} (tapestry guide lists the pages)", page,
                 did_you_mean(page, page_names()));
    const std::string section = name.substr(std::min(hash + 1, name.size()));
    const std::vector<std::string> sections = sections_of(found->second);
    expect_input(section.empty() || std::ranges::count(sections, section) > 0,
                 "{}: the page {} has no section {}{}", name, page, section,
                 did_you_mean(section, sections));
    print_lines(text_of(found->first, section));
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
