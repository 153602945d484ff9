#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "train/inspect/values.hpp"
#include "train/plot/figure.hpp"

// The files that commands leave behind. Of figures, their names are printed.
namespace tapestry {

// Whole or not at all; but a device, a pipe or a link is written to as it is, not replaced.
// InputError where `path` is a folder, or a file that this process has read.
void write_bytes(const std::string& path, const std::string& bytes);

// The one file `out` where its name ends in .png or .svg, or else both: `out`.png and `out`.svg.
// Pictures are PNG alone: `out` itself.
void write_figure(const std::string& out, const Figure& figure);

// Writes a figure and also its values, as .csv.
void write_table_and_figure(const std::string& out, const std::string& csv, const Figure& figure);

// InputError where --out is named as a picture, but what it is to hold is a text.
void expect_text_file(const std::string& out);

// Returns the default path of an output: in the run's folder, or in the current folder for a
// checkpoint.
std::string in_run(const std::string& run, const std::string& name);
// Returns the default path of a figure, without the endings of its files.
std::string in_run(const std::string& run, const std::string& name, const Figure& figure);

// Shows a text as it comes. A carriage return waits for what follows: they may end a line.
void show_as_it_comes(const std::function<void(const TextSink& write)>& stream);

// A line for each of a file's, which is plain or gzip: what `converted` makes of it and its number,
// from 1 on. They go into the file `out` or, where it is empty, are shown as they come.
void write_each_line(
    const std::string& file, const std::string& out,
    const std::function<std::string(std::string_view line, int number)>& converted);

// InputError where --out names a checkpoint, a config or metrics, which nothing shown may replace.
void expect_not_of_a_run(const std::string& out);

// InputError where --out names one of the files that are about to be read, or leads to it.
void expect_not_an_input(const std::string& out, const std::vector<std::string>& inputs);

}  // namespace tapestry
