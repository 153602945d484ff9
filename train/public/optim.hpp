#pragma once

// Installed as <tapestry/optim.hpp>: optimizers, schedules and clipping.
#include "optim/adam.hpp"
#include "optim/array_part.hpp"
#include "optim/averaged_weights.hpp"
#include "optim/clip.hpp"
#include "optim/muon.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "optim/schedule_free.hpp"
#include "optim/sgd.hpp"
