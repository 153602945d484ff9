#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "train/draw/figure.hpp"
#include "train/view.hpp"

// The files that commands leave behind. Of figures, their names are printed.
namespace tapestry {

// Whole or not at all; but a device, a pipe or a link is written to as it is, not replaced.
void write_bytes(const std::string& path, const std::string& bytes);

// NAME.png and NAME.svg, where `out` is NAME or one of these; of pictures, which are PNG alone, the
// file `out` itself.
void write_figure(const std::string& out, const Figure& figure);

// NAME.csv as well.
void write_table_and_figure(const std::string& out, const std::string& csv, const Figure& figure);

// Where what a command shows goes that no --out names: into the run's folder; of a checkpoint,
// here.
std::string in_run(const std::string& run, const std::string& name);

// Shows a text as it comes. A carriage return waits for what follows: they may end a line.
void show_as_it_comes(const std::function<void(const TextSink& write)>& stream);

// A line for each of a file's, which is plain or gzip: what `converted` makes of it and its number,
// from 1 on. They go into the file `out` or, where it is empty, are shown as they come.
void write_each_line(
    const std::string& file, const std::string& out,
    const std::function<std::string(std::string_view line, int number)>& converted);

// InputError where --out names a checkpoint, a config or metrics, which nothing shown may replace.
void expect_not_of_a_run(const std::string& out);

}  // namespace tapestry
