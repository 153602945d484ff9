#pragma once

#include <functional>
#include <string>

// The files that commands leave behind.
namespace tapestry {

// Whole or not at all; but a device, a pipe or a link is written to as it is, not replaced.
void write_bytes(const std::string& path, const std::string& bytes);

// The next two write NAME.csv, NAME.png and NAME.svg, and say so, where `out` is NAME or one of
// these. `draw` draws to a path with one of the last two endings.
void draw_both(const std::string& out, const std::function<void(const std::string& path)>& draw);
void write_table_and_plot(const std::string& out, const std::string& csv,
                          const std::function<void(const std::string& path)>& draw);

}  // namespace tapestry
