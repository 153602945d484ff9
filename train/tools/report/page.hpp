#pragma once

#include <string>
#include <vector>

#include "train/tools/report/recorded_run.hpp"
#include "train/tools/report/report_section.hpp"

namespace tapestry {

// A page that is put together piece by piece: what it shows, and the scripts that this needs.
class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void add(const std::string& html) { body_ += html; }
  void add(const ReportSection& section);
  const std::string& body() const { return body_; }
  std::size_t bytes() const { return body_.size(); }

  // The whole document, which loads nothing: its policy allows its own scripts and pictures alone.
  std::string html() const;

 private:
  std::string title_, body_;
  std::vector<std::string> scripts_{};  // of the parts
  int parts_ = 0;
};

// What shows runs, one after the other, or several side by side. InputError as of
// read_recorded_run.
std::string report_of(const std::vector<std::string>& runs);

}  // namespace tapestry
