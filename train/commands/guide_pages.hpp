#pragma once

#include <map>
#include <string>

namespace tapestry {

// Returns the pages of train/guide/, which are built into the library: "own-data.md" and its text,
// and "learn/attention.md".
const std::map<std::string, std::string>& guide_pages();

// Returns the page that explains a config key, such as "learn/attention": the one that names it in
// a paragraph that begins with "Keys: "; "" if there is none.
std::string page_explaining(const std::string& key);

}  // namespace tapestry
