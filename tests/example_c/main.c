#include <stdio.h>
#include <tapestry/tapestry.h>

/* Prints a text while it is generated. */
static int print_piece(void* user, const char* piece, size_t bytes) {
  (void)user;
  return fwrite(piece, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
}

/* Prints the lines of metrics, JSON objects, and counts them. */
static int print_line(void* user, const char* line, size_t bytes) {
  ++*(int*)user;
  return printf("%.*s\n", (int)bytes, line) > 0;
}

/* Trains a language model with the config argv[1] into the folder argv[2], and generates a text. */
static tapestry_code train_and_generate(int argc, char** argv) {
  tapestry_training training = TAPESTRY_TRAINING;
  training.config = argv[1];
  training.overrides = (const char* const*)argv + 4;
  training.override_count = (size_t)argc - 4;
  int lines = 0;
  tapestry_code code = tapestry_train(&training, argv[2], 0, print_line, &lines, NULL);
  tapestry_model* model = NULL;
  if (code == TAPESTRY_OK) code = tapestry_load(argv[2], &model);
  if (code != TAPESTRY_OK) return code;
  tapestry_generation options = TAPESTRY_GENERATION;
  options.tokens = 60;
  options.temperature = 0.8;
  code = tapestry_generate(model, argv[3], &options, print_piece, NULL, NULL, NULL);
  tapestry_free(model);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: main CONFIG FOLDER PROMPT [KEY=VALUE...]\n"), 2;
  const tapestry_code code = train_and_generate(argc, argv);
  if (code != TAPESTRY_OK) fprintf(stderr, "%s\n", tapestry_error());
  return code;
}
