#pragma once

#include "train/distributed/transport.hpp"

namespace tapestry {

// The place of this process in a launch, from its launcher's environment variables.
struct Launch {
  int rank = 0, size = 1;
  const char* mpi = "";  // MPI implementation: "openmpi" or "mpich"
};
Launch read_launch();  // returns rank 0 of 1 if no launcher set the variables

// Loads the plug-in for the MPI implementation and returns its open_transport_name function. Throws
// InputError that says what to install if the plug-in is missing, cannot be loaded or lacks it.
OpenTransport* load_transport(const Launch& launch);

}  // namespace tapestry
