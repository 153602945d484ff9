#pragma once

#include <string>

#include "train/distributed/ranks.hpp"

namespace tapestry {

// The number of threads of this rank, and a summary of all ranks.
struct Placement {
  int threads = 1;  // threads of this rank: its cores, divided among the ranks that share them
  // One line to print: the numbers of ranks, machines and threads, and how to use idle cores.
  std::string summary{};
};

// Returns the placement of this rank. Starts no thread. Collective.
Placement place_threads(Ranks& ranks);

}  // namespace tapestry
