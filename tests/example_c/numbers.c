/* Prints what a model computes, as numbers of nine digits, which tell all floats apart:
   example_c_numbers RUN TEXT [DATA]. show_numbers.py prints the same from Python. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapestry/tapestry.h>

static const tapestry_model* model;

/* Ends the program with the message of a call that failed. */
static void check(tapestry_code code) {
  if (code == TAPESTRY_OK) return;
  fprintf(stderr, "%s\n", tapestry_error());
  exit(code);
}

static int64_t size_of(int property) {
  int64_t size = 0;
  check(tapestry_size(model, property, &size));
  return size;
}

static float* new_floats(int64_t count) {
  float* values = calloc((size_t)count, sizeof(float));
  if (!values) exit(TAPESTRY_OUT_OF_MEMORY);
  return values;
}

static void print_names(const char* what, int property) {
  const int64_t count = size_of(property);
  printf("%s:", what);
  for (int64_t i = 0; i < count; ++i) {
    const char* name = NULL;
    check(tapestry_name(model, property, i, &name));
    printf(" %s", name);
  }
  printf("\n");
}

static void print_tokens(const char* what, const int32_t* tokens, size_t count) {
  printf("%s:", what);
  for (size_t i = 0; i < count; ++i) printf(" %" PRId32, tokens[i]);
  printf("\n");
}

/* Prints numbers and frees them. */
static void print_floats(const char* what, float* values, int64_t count) {
  printf("%s:", what);
  for (int64_t i = 0; i < count; ++i) printf(" %.9g", (double)values[i]);
  printf("\n");
  free(values);
}

static int print_example(void* user, const tapestry_example* example) {
  int* printed = user;
  printf("%s:", example->place);
  for (size_t i = 0; i < example->cell_count; ++i) printf(" %s", example->cells[i]);
  printf(" ->");
  for (size_t i = 0; i < example->prediction_count; ++i) printf(" %s", example->prediction[i]);
  printf("%s\n", example->flaw);
  return ++*printed < 3;
}

static void language_model(const char* text) {
  tapestry_generation options = TAPESTRY_GENERATION;
  options.tokens = 20;
  options.temperature = 0.8;
  size_t count = 0, written = 0, bytes = 0;
  check(tapestry_tokenize(model, text, NULL, 0, &count));
  int32_t tokens[100], next[20];
  check(tapestry_tokenize(model, text, tokens, 100, &count));
  print_tokens("tokens", tokens, count);
  const char* again = NULL;
  check(tapestry_detokenize(model, tokens, count, &again, &bytes));
  printf("text: %s, %zu bytes\n", again, bytes);
  const int64_t size = (int64_t)count * size_of(TAPESTRY_VOCABULARY);
  float* logits = new_floats(size);
  check(tapestry_logits(model, tokens, count, logits, (size_t)size));
  print_floats("logits", logits, size);
  check(tapestry_generate_tokens(model, tokens, count, &options, next, 20, &written));
  print_tokens("next", next, written);
  check(tapestry_generate(model, text, &options, NULL, NULL, &again, NULL));
  printf("generated: %s\n", again);
}

/* Returns one image with a bright square. */
static float* square(void) {
  const int64_t height = size_of(TAPESTRY_HEIGHT), width = size_of(TAPESTRY_WIDTH);
  float* image = new_floats(size_of(TAPESTRY_CHANNELS) * height * width);
  for (int64_t y = height / 4; y < height * 3 / 4; ++y)
    for (int64_t x = width / 4; x < width * 3 / 4; ++x) image[y * width + x] = 1;
  return image;
}

static int64_t pixels(void) {
  return size_of(TAPESTRY_CHANNELS) * size_of(TAPESTRY_HEIGHT) * size_of(TAPESTRY_WIDTH);
}

static void autoencoder(void) {
  const int64_t Z = size_of(TAPESTRY_LATENT_DIMENSIONS), count = pixels();
  float *image = square(), *means = new_floats(Z), *variances = new_floats(Z);
  float *decoded = new_floats(count), *reconstructed = new_floats(count);
  const int variational = size_of(TAPESTRY_VARIATIONAL) != 0;
  check(tapestry_encode(model, image, (size_t)count, means, variational ? variances : NULL,
                        (size_t)Z));
  check(tapestry_decode(model, means, (size_t)Z, decoded, (size_t)count));
  check(tapestry_reconstruct(model, image, (size_t)count, reconstructed));
  free(image);
  print_floats("means", means, Z);
  print_floats("log variances", variances, variational ? Z : 0);
  print_floats("decoded", decoded, count);
  print_floats("reconstructed", reconstructed, count);
}

static void classifier(const char* picture) {
  const int64_t K = size_of(TAPESTRY_CLASSES), count = pixels();
  float *image = square(), *probabilities = new_floats(K), *read = new_floats(count);
  check(tapestry_classify(model, image, (size_t)count, probabilities, (size_t)K));
  check(tapestry_read_pictures(model, &picture, 1, read, (size_t)count));
  free(image);
  print_names("classes", TAPESTRY_CLASSES);
  print_floats("probabilities", probabilities, K);
  print_floats("picture", read, count);
}

static void text_classifier(const char* text) {
  const int64_t K = size_of(TAPESTRY_CLASSES);
  float* probabilities = new_floats(2 * K);
  const char* texts[2] = {text, text};
  check(tapestry_classify_texts(model, texts, 2, probabilities, (size_t)(2 * K)));
  print_floats("probabilities", probabilities, 2 * K);
  int printed = 0;
  check(tapestry_predict(model, texts, 2, print_example, &printed));
}

static void forecaster(void) {
  const int64_t count = size_of(TAPESTRY_CONTEXT) * size_of(TAPESTRY_SERIES),
                size = size_of(TAPESTRY_HORIZON) * size_of(TAPESTRY_TARGETS);
  float *window = new_floats(count), *forecast = new_floats(size);
  for (int64_t i = 0; i < count; ++i) window[i] = 0.25F * (float)(i % 7);
  check(tapestry_forecast(model, window, (size_t)count, forecast, (size_t)size));
  free(window);
  print_names("series", TAPESTRY_SERIES);
  print_names("targets", TAPESTRY_TARGETS);
  print_floats("forecast", forecast, size);
}

int main(int argc, char** argv) {
  const char *text = argc > 2 ? argv[2] : "", *data = argc > 3 ? argv[3] : NULL;
  tapestry_model* loaded = NULL;
  check(tapestry_set_threads(1));
  check(tapestry_load(argc > 1 ? argv[1] : "", &loaded));
  model = loaded;
  const char* name = NULL;
  check(tapestry_name(model, TAPESTRY_TASK, 0, &name));
  char task[40] = "";
  strncpy(task, name, sizeof task - 1);
  print_names("columns", TAPESTRY_PREDICTION_COLUMNS);
  print_names("fields", TAPESTRY_EXAMPLE_FIELDS);
  if (strcmp(task, "language-model") == 0) language_model(text);
  if (strcmp(task, "vae") == 0) autoencoder();
  if (strcmp(task, "image-classification") == 0) classifier(text);
  if (strcmp(task, "text-classification") == 0) text_classifier(text);
  if (strcmp(task, "forecast") == 0) forecaster();
  if (strcmp(task, "translation") == 0) {
    check(tapestry_translate(model, text, &name, NULL));
    printf("translation: %s\n", name);
  }
  int printed = 0;
  if (data) check(tapestry_predict_file(model, data, print_example, &printed));
  tapestry_free(loaded);
  return 0;
}
