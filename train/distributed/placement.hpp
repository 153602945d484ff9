#pragma once

#include <string>

#include "train/distributed/ranks.hpp"

namespace tapestry {

// The hosts of the ranks, and the number of threads of this rank.
struct Placement {
  int threads = 1;  // threads of this rank: its cores, divided among the ranks that share them
  std::string summary{};  // one line to print, with options of mpirun that use more cores
};

// Returns the placement of this rank. Starts no thread. Collective.
Placement place_threads(Ranks& ranks);

}  // namespace tapestry
