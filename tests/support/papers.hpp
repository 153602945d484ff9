#pragma once

#include "autograd/random.hpp"
#include "tests/support/folder.hpp"

namespace tapestry {

// Writes 8 papers of two fields, with 3 words, each of which cites its field.
inline constexpr const char* content =
    "p1\t1\t0\t0\tmaths\n"
    "p2\t0\t2\t2\tart\n"
    "p3\t1\t1\t0\tmaths\r\n"
    "\n"
    "p4\t0\t0\t1\tart\n"
    "p5\t0\t0\t0\tmaths\n"
    "p6\t0\t0\t1\tart\n"
    "p7\t1\t0\t0\tmaths\n"
    "p8\t0\t1\t1\tart\n";
inline constexpr const char* cites = "p1 p3\np5 p3\np7 p1\np2 p4\np4\tp6\np8 p2\np2 p8\n";

// Writes a citation data set of 400 papers: three fields with ten words each; three of four
// citations are within a field.
inline void write_papers(const TemporaryFolder& folder) {
  Random random(3, Stream::data);
  std::vector<std::int64_t> fields(400);
  for (std::int64_t& field : fields) field = random.below(3);
  std::string lines, citations;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    lines += fmt::format("p{}", i);
    for (int word = 0; word < 30; ++word)
      lines += random.uniform() < (word / 10 == fields[i] ? 0.4 : 0.05) ? " 1" : " 0";
    lines += fmt::format(" field{}\n", fields[i]);
    for (int n = 0; n < 2; ++n) {
      std::int64_t other = random.below(400);
      while (random.uniform() < 0.75 && fields[other] != fields[i]) other = random.below(400);
      citations += fmt::format("p{} p{}\n", i, other);
    }
  }
  folder.write("papers.content", lines);
  folder.write("papers.cites", citations);
}

}  // namespace tapestry
