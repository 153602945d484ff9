#pragma once

#include "train/distributed/transport.hpp"

namespace tapestry {

// The place of this process in a launch, from its launcher's environment variables.
struct Launch {
  int rank = 0, size = 1;
  const char* mpi = "";  // MPI implementation: "openmpi" or "mpich"
};
Launch read_launch();

// Loads the plug-in for the MPI implementation. Throws InputError that says what to install if
// there is none.
OpenTransport* load_transport(const Launch& launch);

}  // namespace tapestry
