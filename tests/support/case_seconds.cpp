#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

// Appends "SECONDS<tab>SOURCE<tab>TITLE" for each test case to the file named by
// TAPESTRY_CASE_SECONDS: the CPU seconds of this process and its children. ./tapestry test reads
// these files.
namespace tapestry {
namespace {

double processor_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

struct CaseSeconds final : doctest::IReporter {
  explicit CaseSeconds(const doctest::ContextOptions&) {
    if (const char* path = std::getenv("TAPESTRY_CASE_SECONDS")) file_.open(path, std::ios::app);
  }

  void test_case_start(const doctest::TestCaseData& data) override {
    const std::string path = data.m_file.c_str();
    title_ = fmt::format("{}\t{}", path.substr(path.rfind("/tests/") + 1), data.m_name);
    begin_ = processor_seconds();
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    if (file_) file_ << fmt::format("{:.3f}\t{}\n", processor_seconds() - begin_, title_);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override { file_.flush(); }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::ofstream file_;
  std::string title_;
  double begin_ = 0;
};

REGISTER_LISTENER("case_seconds", 1, CaseSeconds);

}  // namespace
}  // namespace tapestry
