#pragma once

#include "train/distributed/transport.hpp"

namespace tapestry {

// This process according to its launcher's environment variables.
struct Launch {
  int rank = 0, size = 1;
  const char* mpi = "";  // MPI implementation: "openmpi" or "mpich"
};
Launch read_launch();

// Loads the plug-in for that MPI: InputError, which says what to install, where there is none.
OpenTransport* load_transport(const Launch& launch);

}  // namespace tapestry
