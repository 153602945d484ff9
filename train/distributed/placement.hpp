#pragma once

#include <string>

#include "train/distributed/ranks.hpp"

namespace tapestry {

// Where the ranks run, and how many threads each has.
struct Placement {
  int threads = 1;        // of this rank: its cores, divided among the ranks that share them
  std::string summary{};  // one line for people, with what of mpirun would give more
};

// By all.
Placement place_threads(Ranks& ranks);

}  // namespace tapestry
