#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autograd/ops/shaping.hpp"
#include "autograd/random.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/principal_components.hpp"

namespace tapestry {
namespace {

// Codes (N, 2 or 3), and the names of their axes.
struct Projection {
  Array points;  // (N, 2 or 3)
  std::vector<std::string> axes;
};

Projection project_codes(const Array& z, const std::vector<std::int32_t>& classes) {
  const std::int64_t N = z.dim(0), Z = z.dim(1);
  if (Z == 1)
    return {concat({z, Array::of(classes, {N, 1}).to(z.dtype())}, 1).value(), {"z1", "class"}};
  if (Z == 2) return {z, {"z1", "z2"}};
  if (Z == 3) return {z, {"z1", "z2", "z3"}};
  const PrincipalComponents components = principal_components(z);
  const double whole =
      std::accumulate(components.variances.begin(), components.variances.end(), 0.0);
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < 3; ++i)
    axes.push_back(fmt::format("component {} ({:.0f} %)", i + 1,
                               whole > 0 ? 100 * components.variances[i] / whole : 0));
  return {project(components, z, 3), axes};
}

// Returns `count` of the numbers [0, N) in ascending order, a random sample that is the same in
// each call.
std::vector<std::int64_t> chosen(std::int64_t N, std::int64_t count) {
  std::vector<std::int64_t> images(N);
  std::iota(images.begin(), images.end(), 0);
  Random(0, Stream::sample).shuffle(images);
  images.resize(count);
  std::ranges::sort(images);
  return images;
}

}  // namespace

void expect_usable(const LatentCodes& latent, const std::string& task) {
  const auto expect = [&](bool holds, const std::string& message) {
    expect_input(holds, "task {}: TaskSpec::latent_codes: {}", task, message);
  };
  expect(!latent.splits.empty(), "no split; expected one or more");
  const std::int64_t names = std::ssize(latent.class_names);
  const Array& first = latent.splits.front().z;
  for (const auto& [name, z, classes] : latent.splits) {
    expect(z.rank() == 2 && z.dtype() == DType::float32 && z.dim(1) > 0 && z.dim(1) == first.dim(1),
           fmt::format("split {}: z is {} {}; expected (N, Z) float32, of one Z", name, z.shape(),
                       z.dtype()));
    expect(std::ssize(classes) == z.dim(0),
           fmt::format("split {}: {} classes of {} codes; expected one for each", name,
                       classes.size(), z.dim(0)));
    for (const std::int32_t one : classes)
      expect(
          one >= 0 && one < names,
          fmt::format("split {}: class {}; expected 0 or more, below {}, the number of class names",
                      name, one, names));
  }
}

std::string latent_csv(const LatentCodes& latent) {
  std::string text = "image,split,class";
  const std::int64_t Z = latent.splits.front().z.dim(1);
  for (std::int64_t i = 1; i <= Z; ++i) text += fmt::format(",z{}", i);
  text += '\n';
  for (const LatentSplit& split : latent.splits) {
    const float* z = split.z.values<float>().data();
    for (std::size_t image = 0; image < split.classes.size(); ++image) {
      text += fmt::format("{},{},{}", image, split.name, latent.class_names[split.classes[image]]);
      for (std::int64_t i = 0; i < Z; ++i) text += fmt::format(",{}", *z++);
      text += '\n';
    }
  }
  return text;
}

Scatter latent_scatter(const LatentCodes& latent, std::int64_t most) {
  std::vector<Tensor> codes;
  std::vector<std::int32_t> classes;
  for (const LatentSplit& split : latent.splits) {
    codes.push_back(split.z);
    classes.insert(classes.end(), split.classes.begin(), split.classes.end());
  }
  const Projection projection = project_codes(concat(codes, 0).value(), classes);
  const std::int64_t N = std::ssize(classes), shown = std::min(N, most);
  std::vector<std::vector<std::int64_t>> members(latent.class_names.size());
  for (const std::int64_t image : chosen(N, shown)) members[classes[image]].push_back(image);
  Scatter scatter{.title = fmt::format("The latent space: {} of {} images", shown, N),
                  .axes = projection.axes};
  for (std::size_t i = 0; i < members.size(); ++i)
    scatter.clouds.push_back({latent.class_names[i], projection.points.select(members[i])});
  return scatter;
}

}  // namespace tapestry
