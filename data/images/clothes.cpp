#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "data/images/images.hpp"
#include "data/images/sketch.hpp"

namespace tapestry {
namespace {

// The outline of a garment's torso: half widths, the depth of the neckline, and the length.
struct Torso {
  double shoulder, neck, depth, waist, hem, length;
};

struct Sleeve {
  double length, angle, armhole, cuff;  // the angle is from the vertical, the last two are widths
};

// A renderer of a garment, which draws patches over each other with random lighting.
class Tailor {
 public:
  explicit Tailor(Random& random)
      : random_(random), tone_(chance(0.12) ? pick(0.15, 0.4) : pick(0.5, 1)) {}

  void t_shirt(), trousers(), pullover(), dress(), coat();
  void sandal(), shirt(), sneaker(), bag(), ankle_boot();
  Array photograph();

 private:
  struct Wave {
    double frequency = 0, contrast = 0;
  };

  double pick(double low, double high) { return random_.uniform(low, high); }
  bool chance(double probability) { return random_.uniform() < probability; }

  // Adds an opaque patch of `shade` times the brightness of the garment.
  void cloth(const Outline& outline, double shade = 1, double radius = 1) {
    patches_.push_back({rounded(outline, radius), shade * tone_, true});
  }
  // Adds a patch that multiplies the brightness of what it covers.
  void dye(const Outline& outline, double factor, double radius = 0.3) {
    patches_.push_back({rounded(outline, radius), factor, false});
  }
  void dye_both_sides(const Outline& right, double factor, double radius = 0.3) {
    dye(right, factor, radius);
    dye(mirrored(right), factor, radius);
  }
  void weave(double probability, double contrast);  // draws stripes or checks with this probability

  void sew(const Torso& torso, const Sleeve& sleeve);
  void lay_collar(double neck, double depth, double shade);
  void button_up(double from, double to, double shade, double width);

  void fit_frame();

  Random& random_;
  double tone_;
  Wave across_, down_;
  std::vector<Patch> patches_;
};

void Tailor::weave(double probability, double contrast) {
  if (!chance(probability)) return;
  const bool checked = chance(0.4), upright = chance(0.5);
  const double wave = pick(0.7, 2.2), strength = contrast * pick(0.4, 1);
  if (checked || !upright) down_ = {wave, strength};
  if (checked || upright) across_ = {wave * pick(0.8, 1.2), strength};
}

// Draws the sleeves, darker where they meet the torso, then the torso, its neckline and hem.
void Tailor::sew(const Torso& torso, const Sleeve& sleeve) {
  const auto& [shoulder, neck, depth, waist, hem, length] = torso;
  const double slope = pick(1, 2.4), trim = pick(0.65, 1.1), shade = pick(0.85, 1);
  const double pit = slope + sleeve.armhole, tail = pick(-0.3, 0.6), flat = neck * pick(0.1, 0.9);
  if (sleeve.length > 0) {
    const double dx = std::sin(sleeve.angle), dy = std::cos(sleeve.angle);
    const double x = shoulder + sleeve.length * dx, y = slope + sleeve.length * dy;
    const double inner_x = x - sleeve.cuff * dy, inner_y = y + sleeve.cuff * dx;
    const Outline arm{neck,    0,       shoulder,       slope, x, y,
                      inner_x, inner_y, shoulder - 0.6, pit,   2, pit};
    cloth(arm, shade);
    cloth(mirrored(arm), shade);
    dye_both_sides(band({x - dx, y - dy, inner_x - dx, inner_y - dy}, 1.8), trim);
    dye_both_sides(band({shoulder, slope, shoulder - 0.3, pit, waist, 0.55 * length}, 0.9), 0.6);
  }
  cloth(unfolded({0, 0.6, neck + 0.2, 0.2, neck + 0.2, 3}), 0.45);
  cloth(unfolded({0, depth, flat, depth, neck, 0, shoulder, slope, shoulder - 0.3, pit, waist,
                  0.55 * length, hem, length, 0, length + tail}));
  dye(band({-hem, length - 0.7, hem, length - 0.7}, 1.4), trim);
  dye(band(unfolded({neck, 0, flat, depth, 0, depth}), 1), trim, 1);
}

void Tailor::lay_collar(double neck, double depth, double shade) {
  const double point = neck + pick(0.8, 1.8), low = 0.55 * depth + 1.2, high = pick(-1.4, -0.6);
  const Outline wing{0.2, depth, point, low, neck, high, neck - 1.2, 0};
  cloth(unfolded({neck - 0.2, high, neck, 1.4}), 0.7 * shade, 0.4);
  cloth(wing, shade, 0.4);
  cloth(mirrored(wing), shade, 0.4);
  dye_both_sides(band({0.2, depth, point, low}, 0.7), 0.6);
}

void Tailor::button_up(double from, double to, double shade, double width) {
  dye(band({0, from, 0, to}, width), shade, 0);
  const double gap = pick(2.8, 4.5), x = pick(0.6, 1.4);
  if (!chance(0.6)) return;
  for (double y = from + 1.5; y < to; y += gap) dye(band({x, y, x + 0.9, y}, 0.9), 0.45, 0);
}

void Tailor::t_shirt() {
  const bool sleeveless = chance(0.12);
  const double shoulder = sleeveless ? pick(4.5, 5.5) : pick(6, 7.4), neck = pick(2.4, 4);
  const double depth = pick(1.5, 5), waist = pick(5.3, 7), hem = waist + pick(-0.2, 1.2);
  const double length = pick(22, 29), sleeve = sleeveless ? 0 : pick(4, 8);
  const double angle = pick(0.3, 0.9), armhole = pick(5, 6.5), cuff = pick(3.5, 4.8);
  sew({shoulder, neck, depth, waist, hem, length}, {sleeve, angle, armhole, cuff});
  weave(0.2, 0.35);
  const double x = pick(1.5, 4), top = pick(8, 11), bottom = top + pick(1, 5);
  if (chance(0.35)) dye(unfolded({x, top, x, bottom}), pick(0.4, 1.4), 1.5);  // a print
}

void Tailor::trousers() {
  const double waist = pick(3.6, 5.2), hip = waist + pick(0.2, 1.2), spread = pick(0.3, 2.6);
  const double ankle = spread + pick(1.8, 4), crotch = pick(7.5, 10), middle = 0.5 * hip + 0.2;
  const double length = chance(0.08) ? pick(15, 19) : 28, knee = (hip + ankle) * pick(0.4, 0.5);
  cloth(unfolded({0, 0, waist, 0, hip, 6, knee, 0.6 * length, ankle, length, spread, length,
                  0.5 * spread, 0.5 * (crotch + length), 0, crotch}),
        1, 0.6);
  dye(band({-6, 0.8, 6, 0.8}, 1.6), pick(0.65, 1.1));
  dye(band({0, 1.5, 0, crotch}, 0.8), pick(0.5, 0.9));
  dye_both_sides(band({middle, 8, 0.5 * (spread + ankle), length}, 1), pick(0.75, 1.2));
  dye_both_sides(band({middle, 7, middle + 0.2, 15}, 2.4), pick(0.9, 1.2), 1.2);
  dye_both_sides(band({waist - 1.6, 1.6, hip, 4.5}, 0.8), pick(0.6, 1));
}

void Tailor::pullover() {
  const double shoulder = pick(5.8, 7.4), neck = pick(2.2, 3.4), depth = pick(1.2, 4);
  const double waist = shoulder - pick(0, 0.9), hem = waist + pick(-0.6, 0.5);
  const double length = pick(20, 26), sleeve = length + pick(-2, 2.5), angle = pick(0.08, 0.24);
  const double armhole = pick(6, 7.5), cuff = pick(2.2, 3);
  sew({shoulder, neck, depth, waist, hem, length}, {sleeve, angle, armhole, cuff});
  if (chance(0.25)) cloth(unfolded({neck - 0.6, -1.8, neck, 1.6}), pick(0.8, 0.95));
  weave(0.3, 0.3);
}

void Tailor::dress() {
  const double shoulder = pick(3.6, 5.2), neck = shoulder * pick(0.45, 0.65);
  const double depth = pick(1.2, 4.5), waist = shoulder * pick(0.7, 0.95);
  const double hem = waist + pick(0, 4.5), length = 28;
  const double sleeve = chance(0.4) ? 0 : chance(0.4) ? pick(9, 15) : pick(2, 5);
  const double angle = pick(0.12, 0.4), armhole = pick(4, 5), cuff = pick(1.8, 2.6);
  sew({shoulder, neck, depth, waist, hem, length}, {sleeve, angle, armhole, cuff});
  if (chance(0.5)) dye(band({-6, 12, 6, 12}, 1.2), pick(0.5, 1.2));
  const double pleat = pick(0.7, 1), x = 0.55 * hem;
  dye(band({0, 14, 0, length}, 0.8), pleat);
  dye_both_sides(band({0.3 * waist, 14, x, length}, 0.8), pleat);
  weave(0.2, 0.3);
}

void Tailor::coat() {
  const double shoulder = pick(6.4, 7.8), neck = pick(2.4, 3.4), depth = pick(2, 4);
  const double waist = shoulder - pick(-0.2, 1), hem = waist + pick(0.2, 1.8);
  const double length = pick(23, 28), sleeve = length * pick(0.82, 0.98), angle = pick(0.1, 0.3);
  const double armhole = pick(7, 8.5), cuff = pick(2.8, 4), lapel = pick(5, 11);
  sew({shoulder, neck, depth, waist, hem, length}, {sleeve, angle, armhole, cuff});
  if (chance(0.4)) {  // a hood, and the dark inside it
    cloth(unfolded({0, -3.2, neck, -2.6, neck + 1.4, 2, 0, 5}), 0.9, 2);
    dye(unfolded({0, -1.5, neck - 1, -1.2, neck - 0.6, 1.5, 0, 3.5}), 0.5, 2);
  } else {
    lay_collar(neck, lapel, pick(0.75, 1.1));
  }
  const double gap = pick(0.9, 1.6), x = pick(2.2, 3), y = length * pick(0.62, 0.75);
  button_up(3.5, length + 1, pick(0.15, 0.5), gap);
  dye_both_sides(band({x, y, x + 2.8, y - 0.8}, 1), pick(0.4, 0.8));
}

void Tailor::sandal() {
  const double lift = chance(0.6) ? pick(0, 2) : pick(4, 10), rise = pick(5, 8);
  const double shade = pick(0.5, 1.1), heel = pick(1, 3), strap = pick(1.3, 2.4);
  const double lean = pick(1, 4), width = pick(2.5, 6);
  const auto sole = [&](double x) { return -lift * std::clamp((x + 7) / 17, 0.0, 1.0); };
  const auto foot = [&](double x) { return sole(x) - rise * std::clamp((x + 14) / 17, 0.0, 1.0); };
  if (chance(0.5))
    cloth({-10, 0, -7, 0, 10, -lift, 13, -lift, 13, 1, -10, 1}, shade, 0.8);  // a wedge
  else
    cloth({12 - heel, -lift, 13, -lift, 12.8, 1, 12.6 - 0.7 * heel, 1}, shade, 0.2);
  const double first = pick(-11, -8), last = pick(-8, 4), gap = pick(3.5, 5.5);
  for (double x = first; x < last; x += gap)
    cloth(band({x, sole(x), x + lean, foot(x + lean), x + lean + 2, foot(x + lean), x + width,
                sole(x + width)},
               strap),
          pick(0.7, 1.1), 1.5);
  const double ankle = pick(4.5, 8), top = foot(ankle) - pick(0, 2), counter = pick(1.2, 3);
  if (chance(0.6)) cloth(band({ankle, top, first + 3, foot(first + 3)}, strap), 0.85);
  if (chance(0.5)) cloth(band({ankle, top, ankle - 1.5, sole(ankle)}, strap), 0.9);
  cloth(band({12.3, -lift, 12.8, top}, counter), pick(0.7, 1));
  cloth(band({ankle, top, 12.8, top + pick(-1, 1)}, strap));
  cloth(band({-14, -0.6, -7, 0, 10, -lift, 13.2, -lift - 0.4}, pick(1.2, 2.4)), shade, 2);
}

void Tailor::shirt() {
  const bool rolled = chance(0.35);
  const double shoulder = pick(5.6, 7), neck = pick(2, 3), depth = pick(1.5, 3.5);
  const double waist = shoulder - pick(0, 1.2), hem = waist + pick(-0.3, 0.8);
  const double length = pick(22, 26), sleeve = rolled ? pick(8, 12) : length * pick(0.86, 1.04);
  const double angle = rolled ? pick(0.25, 0.45) : pick(0.08, 0.22), armhole = pick(5.5, 7);
  const double cuff = rolled ? pick(3, 3.8) : pick(2, 2.8), placket = pick(0.75, 1.2);
  sew({shoulder, neck, depth, waist, hem, length}, {sleeve, angle, armhole, cuff});
  cloth(unfolded({hem - 0.8, length - 1.5, hem - 1.2, length + 0.8, 0, length + 2}), 1, 2.5);
  button_up(depth + 1, length + 2, placket, 1);
  lay_collar(neck, depth + 1, pick(1, 1.25));
  weave(0.7, 0.35);
}

void Tailor::sneaker() {
  const double height = chance(0.15) ? pick(10, 13) : pick(6.5, 9), toe = pick(2.4, 3.6);
  const double dip = pick(0.6, 2.2), sole = pick(1.4, 2.8), throat = pick(-5.5, -3);
  const double tongue = pick(2, 4.5), instep = -toe - 1.4, top = -0.4 - height;
  const Outline back{13.2, 0, 13.6, -0.6 * height, 13.2, -height, 11.5, -height, 8.5, dip - height};
  const Outline front{tongue + 1.5, top + 0.8, tongue, top,         throat, instep,
                      -10,          -toe,      -13.6,  -0.55 * toe, -13.8,  0};
  cloth(joined(back, front), 1, 1.2);
  const double panel = pick(0.55, 1.25), laces = pick(0.5, 1.6), ink = pick(0.35, 1.6);
  if (chance(0.6)) dye({-14, 0, -14, -4, -9.5, -4, -7, 0}, panel, 1.5);
  if (chance(0.6)) dye({9.5, 0, 11, -height, 14, -height, 14, 0}, panel);
  for (const double t : {0.1, 0.35, 0.6, 0.85}) {
    const double x = std::lerp(throat, tongue, t), y = std::lerp(instep, top, t);
    dye(band({x, y, x + 2, y + 2.4}, 0.8), laces);
  }
  const double lean = pick(-1, 4), stripes = pick(-2, 9);
  for (double x = 1; x < stripes; x += 2.4)
    dye(band({x, -0.5, x + lean, 1.5 - 0.8 * height}, 1.1), ink);
  const double rubber = chance(0.6) ? pick(1.1, 1.6) : pick(0.3, 0.7);
  cloth({-14, -0.8, 13.6, -0.4, 14, sole, -12, sole, -14, 0.6 * sole}, rubber, 0.8);
  dye(band({-14, -0.5, 14, -0.2}, 0.7), 0.6);
}

void Tailor::bag() {
  const double top = pick(7.5, 12.5), bottom = pick(9, 13), height = pick(11, 19);
  const double grip = top * pick(0.35, 0.7), rise = pick(3, 13), arch = grip * pick(0.3, 1);
  const double strap = pick(1, 1.9), ink = pick(0.5, 0.85), flap = height * pick(0.4, 0.65);
  if (chance(0.85))
    cloth(band(unfolded({grip, 1.5, 0.95 * grip, -0.5 * rise, arch, -rise}), strap),
          pick(0.6, 0.95), 4);
  cloth(unfolded({top, 0, bottom, 0.6 * height, bottom - 0.4, height}), 1, pick(0.5, 4.5));
  const std::int64_t style = random_.below(3);
  if (style == 0) {  // a flap with a clasp
    dye(band(unfolded({top + 0.5, 0.8 * flap, 0, flap}), 1), ink);
    dye(unfolded({1, flap - 1, 1, flap + 1.2}), 0.4);
  } else if (style == 1) {  // a zip and a pocket
    dye(band({-top, 1.6, top, 1.6}, 1), ink);
    dye(unfolded({0.55 * bottom, flap, 0.55 * bottom, 0.85 * height}), ink + 0.25, 0.8);
  } else {
    dye_both_sides(band({grip, 0, grip, height}, strap), ink);
  }
  dye(band({-bottom, height - 0.8, bottom, height - 0.8}, 1.6), pick(0.6, 1.1));
  weave(0.15, 0.3);
}

void Tailor::ankle_boot() {
  const double shaft = pick(13, 24), heel = pick(0.8, 8), front = pick(1, 4.2), toe = pick(3, 4.5);
  const double flare = pick(-0.8, 0.8), slant = pick(-1, 1), tip = pick(-13, -10);
  const double lift = 0.6 * heel, ground = heel - lift, middle = 0.5 * (front + 12.5);
  const Outline leg{
      12.8,          -lift,         12,          -0.5 * shaft, 12.6 + flare, -shaft - slant,
      front - flare, slant - shaft, front - 0.2, -0.5 * shaft};
  const Outline foot{front - 3, -toe - 2.2,
                     tip + 2,   ground - toe - 0.5,
                     tip - 0.6, ground - 0.4 * toe,
                     tip,       ground,
                     -2,        ground,
                     3,         -0.3 * lift};
  cloth(joined(leg, foot), 1, 1.6);
  const double block = heel > 3 ? pick(1.6, 4.5) : pick(4.5, 8), sole = pick(0.4, 1);
  const double ink = pick(0.5, 0.85), back = 12.8 - block, floor = ground + 0.7;
  cloth({back, -lift - 0.6, 12.9, -lift - 0.6, 12.4, floor, back + 0.2 * block, floor}, sole, 0.3);
  cloth(band({tip - 0.4, ground, -1.5, ground, 4, -0.6 * lift, 12.8, -lift}, 1.2), sole);
  const std::int64_t style = random_.below(3);
  if (style == 0)  // elastic, a zip, or laces
    dye({middle - 1.6, -shaft, middle + 1.6, -shaft, middle, -0.4 * shaft}, ink);
  else if (style == 1)
    dye(band({middle, -shaft, middle + 1, -lift - 1}, 0.9), ink);
  else
    for (double y = 2 - shaft; y < -toe - 2; y += 2.5)
      dye(band({front - 1, y, front + 2.4, y - 0.6}, 0.9), ink);
  dye(band({front, -0.35 * shaft, 12.5, -0.3 * shaft}, 1), pick(0.7, 1));
}

// Rotates the garment slightly, and scales it so that its longer side fills the frame.
void Tailor::fit_frame() {
  const double tilt = 0.025 * random_.normal(), cosine = std::cos(tilt), sine = std::sin(tilt);
  Point low{1e9, 1e9}, high{-1e9, -1e9};
  for (Patch& patch : patches_)
    for (Point& point : patch.outline.points) {
      point = {cosine * point.x - sine * point.y, sine * point.x + cosine * point.y};
      if (!patch.opaque) continue;
      low = {std::min(low.x, point.x), std::min(low.y, point.y)};
      high = {std::max(high.x, point.x), std::max(high.y, point.y)};
    }
  const double scale = picture_side * pick(0.94, 1.01) /
                       std::max({high.x - low.x, high.y - low.y, 0.6 * picture_side});
  const double x = 0.5 * picture_side + pick(-0.5, 0.5), y = 0.5 * picture_side + pick(-0.5, 0.5);
  for (Patch& patch : patches_)
    for (Point& point : patch.outline.points)
      point = {x + scale * (point.x - 0.5 * (low.x + high.x)),
               y + scale * (point.y - 0.5 * (low.y + high.y))};
}

Array Tailor::photograph() {
  fit_frame();
  Array image = Array::zeros({picture_side, picture_side});
  const std::span<float> pixels = image.mutable_values<float>();
  for (const Patch& patch : patches_) paint(patch, pixels);

  const double light_x = pick(-0.008, 0.008), light_y = pick(-0.01, 0.005);
  const double fold = pick(0.0, 0.06), fold_x = pick(0.5, 1.1), fold_y = pick(-0.15, 0.15);
  const double phase = pick(0.0, 2.0 * std::numbers::pi), grain = pick(0.01, 0.08) / 255.0;
  std::array<double, picture_side> across, down;
  for (std::size_t i = 0; i < picture_side; ++i) {
    const auto at = static_cast<double>(i);
    across[i] = light_x * (at - 14.0) + across_.contrast * std::sin(across_.frequency * at + phase);
    down[i] = light_y * (at - 14.0) + down_.contrast * std::sin(down_.frequency * at + phase);
  }
  std::uint32_t noise = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    noise = i % 4 == 0 ? random_.bits() : noise >> 8;
    if (pixels[i] == 0.0f) continue;
    const std::size_t row = i / picture_side, column = i % picture_side;
    const double wave =
        std::cos(fold_x * static_cast<double>(column) + fold_y * static_cast<double>(row) + phase);
    const double light = 1.0 + across[column] + down[row] + fold * wave +
                         grain * (static_cast<double>(noise & 255u) - 127.5);
    pixels[i] = std::clamp(pixels[i] * static_cast<float>(light), 0.0f, 1.0f);
  }
  return image;
}

struct Garment {
  const char* name;
  void (Tailor::*sew)();
};

constexpr std::array<Garment, garment_classes> wardrobe{{{"t-shirt", &Tailor::t_shirt},
                                                         {"trousers", &Tailor::trousers},
                                                         {"pullover", &Tailor::pullover},
                                                         {"dress", &Tailor::dress},
                                                         {"coat", &Tailor::coat},
                                                         {"sandal", &Tailor::sandal},
                                                         {"shirt", &Tailor::shirt},
                                                         {"sneaker", &Tailor::sneaker},
                                                         {"bag", &Tailor::bag},
                                                         {"ankle boot", &Tailor::ankle_boot}}};

const Garment& garment(int garment_class) {
  require(garment_class >= 0 && garment_class < garment_classes,
          "garment: class {}; expected 0 or more and below {}", garment_class, garment_classes);
  return wardrobe[garment_class];
}

}  // namespace

const char* garment_name(int garment_class) { return garment(garment_class).name; }

Array make_garment(int garment_class, Random& random) {
  const Garment& chosen = garment(garment_class);
  Tailor tailor(random);
  (tailor.*chosen.sew)();
  return tailor.photograph();
}

ImageDataset make_clothes(std::int64_t count, std::uint64_t seed, SyntheticSplit split) {
  require(count >= 1, "make_clothes: count = {}; expected at least 1", count);
  const std::uint64_t first = static_cast<std::uint64_t>(split) << 40;
  constexpr std::int64_t side = 28;
  Array images({count, side, side});
  std::vector<std::int32_t> labels(count);
  float* pixels = images.mutable_values<float>().data();
  parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto garment_class = static_cast<std::int32_t>(i % garment_classes);
      Random random(seed, Stream::data, first + static_cast<std::uint64_t>(i));
      const Array image = make_garment(garment_class, random);
      std::ranges::copy(image.values<float>(), pixels + i * side * side);
      labels[i] = garment_class;
    }
  });
  return ImageDataset(images, std::move(labels));
}

}  // namespace tapestry
