#pragma once

#include "autograd/array.hpp"
#include "autograd/random.hpp"

namespace tapestry {

// Drawn clothes, in the manner and the class order of Fashion-MNIST (Xiao et al. 2017): bright
// garments on black that fill the frame, to train on where the photographs are not at hand.
inline constexpr int garment_classes = 10;

// "t-shirt", "trousers", ... Throws std::invalid_argument outside [0, garment_classes).
const char* garment_name(int garment_class);

// Draws one garment: (28, 28) float32 in [0, 1]. The same random state draws the same bits.
Array make_garment(int garment_class, Random& random);

}  // namespace tapestry
