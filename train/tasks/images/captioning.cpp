#include "train/tasks/images/captioning.hpp"

#include <cmath>

#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/images/outfits.hpp"
#include "data/text/bleu.hpp"
#include "data/text/unicode.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/run/version.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/token_loss.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {

const SettingsOf<CaptioningSettings> captioning_settings = [] {
  using S = CaptioningSettings;
  using Row = Bound<S>;
  const Condition of_files{"data.path", {std::string()}, true};
  return std::vector<Row>{
      Row("data.test_fraction", &S::test_share, "fraction of the pictures of a folder for the test",
          {.low = 0, .high = 0.9, .used_if = {of_files}}),
      Row("data.vocabulary", &S::vocabulary,
          "vocabulary size of the tokenizer, which is trained on the training captions",
          {.low = 300, .high = 1e6}),
      Row("data.lower_case", &S::lower_case,
          "convert captions to lower case, and compute BLEU in lower case"),
      Row("model.context", &S::context,
          "maximum number of tokens of a caption; longer ones are cut", {.low = 2, .high = 4096}),
      Row("model.patch", &S::patch,
          "side of a patch in pixels; must divide the images' height and width",
          {.low = 1, .high = 1024}),
      Row("model.decoder_layers", &S::decoder_layers,
          "the decoder's blocks; 0: as many as the encoder's", {.low = 0, .high = 1000}),
      Row("model.label_smoothing", &S::label_smoothing,
          "label smoothing: share of the target probability that is spread over all tokens",
          {.low = 0, .high = 0.9}),
      Row("model.beams", &S::beams, "number of beams in decoding; 1: greedy decoding",
          {.low = 1, .high = 64, .may_change_on_resume = true})};
}();

namespace {

VisionTransformerOptions picture_options(const Config& config, const ImageSize& size) {
  VisionTransformerOptions options = patches_of(config, captioning_settings.of(config), size);
  options.readout = Readout::mean;
  return options;
}

EncoderDecoder make_captioner(const Config& config, const VisionTransformerOptions& picture,
                              std::int64_t vocabulary) {
  const CaptioningSettings given = captioning_settings.of(config);
  const EncoderDecoderOptions options{
      .source_vocabulary = vocabulary,
      .target_vocabulary = vocabulary,
      .target_context = given.context,
      .encoder_layers = 0,
      .decoder_layers = given.decoder_layers > 0 ? given.decoder_layers : picture.layers,
      .block = picture.block,
      .shared_embeddings = true,
      .patches = patch_encoder_options(picture)};
  return initialized(config, [&](Random& init) { return EncoderDecoder(options, init); });
}

TaskSpec captioning_spec() {
  using enum MetricInfo::Better;
  return {.name = "captioning",
          .help = "an encoder-decoder transformer that describes images",
          .keys = joined({block_keys(), captioned_image_keys(), captioning_settings.keys()}),
          .make = make_task_of<Captioning>,
          .detect = detect_captioned_images,
          .recognize = recognize_captions,
          .metrics = token_metrics(
              "the caption's",
              {{"exact_match", "", higher, "the share of captions that are entirely correct"},
               {"bleu", "from 0 to 100", higher,
                "the BLEU score: the agreement of n-grams with the captions, from 0 to 100"},
               {"exact_match_new", "", higher,
                "the same share of the images with a garment in a color that it has in no training "
                "image"},
               {"exact_match_shuffled", "", neither,
                "the share of captions that are those of the next image: chance"},
               {"color_attention", "", higher,
                "the attention of the words of colors to their own garment, divided by that to "
                "the other garment"},
               {"color_attention_uniform", "", neither,
                "the same quotient if attention is uniform over the image"}}),
          .samples = captioning_samples(),
          .predictor = captioning_predictor,
          .attention = captioning_attention(),
          .panels = captioning_panels,
          .onnx = captioning_graphs,
          .reads_whole_data = true};
}

const RegisterTask registered_captioning(captioning_spec);

// Returns the share of predictions that equal the reference that is `shift` further, of those that
// `counts` accepts.
template <class Counts>
MetricSum matches(const GeneratedTexts& texts, std::size_t shift, bool lower, Counts counts) {
  MetricSum sum;
  const std::size_t N = texts.predictions.size();
  for (std::size_t i = 0; i < N; ++i) {
    const std::string& reference = texts.references[(i + shift) % N];
    if (!counts(reference)) continue;
    ++sum.count;
    sum.sum += texts.predictions[i] == (lower ? lower_case(reference) : reference);
  }
  return sum;
}

}  // namespace

Captioning::Captioning(const TaskSetup& setup)
    : settings_(captioning_settings.of(setup.config)),
      data_(setup),
      picture_(picture_options(setup.config, data_.images().size())),
      model_(make_captioner(setup.config, picture_, data_.tokenizer().size())) {}

EncoderDecoder::EncodedSource Captioning::encode(const Tensor& images, Random* noise) const {
  return model_.encode_patches(cut_squares(images, picture_), noise);
}

std::vector<std::vector<std::int32_t>> Captioning::describe(const Array& images) const {
  return translate(model_, images.dim(0), encode(images),
                   {.beams = settings_.beams,
                    .max_tokens = settings_.context - 1,
                    .begin = bos_token,
                    .end = eos_token});
}

Loss Captioning::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const auto& [tokens, references, masks] = batch.part<CaptionTokens>();
  const EncoderDecoder::EncodedSource encoded = encode(batch.inputs, noise);
  const bool looks = !pass.training && !masks.empty();
  std::optional<AttentionRecorder> recorder;
  if (looks) recorder.emplace();
  Loss loss = token_loss(model_, model_.hidden(tokens, encoded, noise), batch,
                         pass.training ? settings_.label_smoothing : 0);
  if (looks) add_attention_to_colors(*recorder, batch, loss.averages);
  recorder.reset();
  if (pass.training) return loss;
  for (const auto& caption : describe(batch.inputs))
    loss.generated.predictions.push_back(text(caption));
  loss.generated.references = references;
  return loss;
}

// Adds the attention to both garments with which the first token of each color is predicted, the
// mean of all heads and layers.
void Captioning::add_attention_to_colors(const AttentionRecorder& recorder, const Batch& batch,
                                         MetricSums& sums) const {
  const Array& masks = batch.part<CaptionTokens>().masks;
  const std::int64_t B = masks.dim(0), R = masks.dim(1), T = batch.targets.dim(1);
  VisionTransformerOptions plane = picture_;
  plane.channels_in = 1;
  const Tensor squares =
      cut_squares(Tensor(masks.reshaped({B * R, masks.dim(2) * masks.dim(3)})), plane);
  const Array covered = mean(squares, {2}).value();  // (B · R, S)
  const std::int64_t S = covered.dim(1);
  const Tensor layers = reshape(cross_attention(recorder), {-1, B, T, S});
  const Array looks = mean(layers, {0}).value().to(DType::float32);  // (B, T, S)
  MetricSum &own = sums["color_attention"], &uniform = sums["color_attention_uniform"];
  for (std::int64_t b = 0; b < B; ++b) {
    const auto row = batch.targets.values<std::int32_t>().subspan(b * T, T);
    const auto caption = row.first(std::ranges::find(row, eos_token) - row.begin());
    std::int64_t garment = 0;
    for (const CaptionWord& word : words_of(data_.tokenizer(), caption)) {
      if (!is_outfit_color(word.text) || garment == R) continue;
      for (std::int64_t s = 0; s < S; ++s)
        for (std::int64_t r = 0; r < R; ++r) {
          const double share = covered.values<float>()[(b * R + r) * S + s];
          const double weight = looks.values<float>()[(b * T + word.first) * S + s];
          (r == garment ? own.sum : own.count) += weight * share;
          (r == garment ? uniform.sum : uniform.count) += share / static_cast<double>(S);
        }
      ++garment;
    }
  }
}

void Captioning::add_derived_metrics(Metrics& metrics) const { add_perplexity(metrics); }

void Captioning::add_corpus_metrics(const GeneratedTexts& generated, Metrics& metrics) const {
  const bool lower = settings_.lower_case;
  const auto any = [](const std::string&) { return true; };
  metrics["exact_match"] = matches(generated, 0, lower, any).value();
  metrics["bleu"] =
      corpus_bleu(generated.predictions, generated.references, {.lower_case = lower}).score;
  if (!data_.is_synthetic()) return;
  metrics["exact_match_shuffled"] = matches(generated, 1, lower, any).value();
  const MetricSum of_new = matches(generated, 0, lower, has_new_pair);
  if (of_new.count > 0) metrics["exact_match_new"] = of_new.value();
}

Signatures Captioning::signatures() const {
  return {{"bleu", fmt::format("{}|version:tapestry-{}",
                               bleu_signature({.lower_case = settings_.lower_case}), release())}};
}

std::vector<CaptionWord> words_of(const BytePairTokenizer& tokenizer,
                                  std::span<const std::int32_t> tokens) {
  std::vector<CaptionWord> words;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    const std::string_view text = tokenizer.bytes_of(tokens[i]);
    if (words.empty() || text.starts_with(' ')) words.push_back({.first = i});
    words.back().text += text.substr(text.starts_with(' '));
    words.back().last = i + 1;
  }
  return words;
}

}  // namespace tapestry
