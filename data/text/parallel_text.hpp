#pragma once

#include <string>
#include <vector>

namespace tapestry {

// Sentences and their translations: sources[i] and targets[i] are line i + 1 of the two files.
struct ParallelText {
  std::string source_path{};
  std::string target_path{};
  std::vector<std::string> sources{};  // UTF-8, none empty, as many as targets and at least one
  std::vector<std::string> targets{};
};

// Reads two files, plain or gzip, one sentence a line. A byte order mark and the carriage returns
// of Windows are dropped; white space is kept. InputError names file and line: not UTF-8, a line
// of white space alone, files of different line counts, empty files, above 1 GiB.
ParallelText load_parallel_text(const std::string& source_path, const std::string& target_path);

// Which texts of a path to read.
struct ParallelFiles {
  std::string split = "train";
  std::string source = "de";  // the language that is read
  std::string target = "en";  // the language that is written
};

// Says what load_parallel_text reads.
inline constexpr const char* parallel_files =
    "a folder with a file of sentences a split and language";

// Reads two texts in the format of their path. Of a folder, these are the two files named
// <split>.<language>, or the only one named <split>*.<language>, such as test_2016_flickr.de; or
// .gz of them. OptionError of "split": no such files, or several (it lists what the folder has).
// InputError: a file without its translation, and as above.
ParallelText load_parallel_text(const std::string& path, const ParallelFiles& files);

}  // namespace tapestry
