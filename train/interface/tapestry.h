/* Tapestry from C, and from languages that call C functions. A program includes
   <tapestry/tapestry.h> and links with -ltapestry -ltapestry-engine. The functions do what those of
   the same name in <tapestry/model.hpp> do, with the same bits; that header says more about shapes.

   Errors. A function returns TAPESTRY_OK or the kind of its error. A call that failed has written
   none of its outputs, and tapestry_error() returns its message. No exception leaves a function,
   and none may leave a callback.

   Arrays. The caller passes each array with its number of elements, which is checked. Arrays are
   row-major; (T, V) means T rows of V numbers.

   Texts are UTF-8 and end with a zero byte. A text that a function returns belongs to the library;
   it is valid until the thread's next call of a function of this header.

   Threads. Several threads may use a model at once, with the same results as one after the other.
   A model may be freed when no call uses it.

   The interface is stable: a program runs with every libtapestry.so.0 of the minor version that it
   was compiled for, and compiles with later ones. */
#ifndef TAPESTRY_H
#define TAPESTRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of errors. The first three are the exit statuses of the program. */
typedef enum tapestry_code {
  TAPESTRY_OK = 0,
  TAPESTRY_FAILED = 1,         /* it failed while running, as a file that cannot be written */
  TAPESTRY_WRONG_INPUT = 2,    /* a run, config or data file, or a text, is wrong */
  TAPESTRY_WRONG_ARGUMENT = 3, /* null, out of range, a wrong size, or a model of another task */
  TAPESTRY_OUT_OF_MEMORY = 4
} tapestry_code;

/* A trained model, of tapestry_load(). */
typedef struct tapestry_model tapestry_model;

/* Receives a text, or a piece of one with whole characters, of `bytes` bytes. Returns 0 to stop
   what calls it, and another number to continue. `user` is what the caller passed with it. */
typedef int (*tapestry_take_text)(void* user, const char* text, size_t bytes);

/* Returns "0.1.0 (commit 4e34a53)". */
const char* tapestry_version(void);

/* Returns the message, one line, of the thread's last call that failed; "" if there is none. */
const char* tapestry_error(void);

/* Sets the number of threads of all later calls, at least 1; by default OMP_NUM_THREADS if it is
   set, else the number of usable cores. Results do not depend on it. */
tapestry_code tapestry_set_threads(int count);

/* Loads a checkpoint, or the best model of a run's folder, into `*model`, which tapestry_free()
   frees. */
tapestry_code tapestry_load(const char* run, tapestry_model** model);
void tapestry_free(tapestry_model* model); /* does nothing for null */

/* What tapestry_size() returns of a model, each only for the tasks that have it. */
typedef enum tapestry_property {
  TAPESTRY_VOCABULARY = 1, /* V, the number of tokens */
  TAPESTRY_CONTEXT = 2,    /* T, the context length; of a forecaster its input steps */
  TAPESTRY_CHANNELS = 3,   /* of images: 1 for gray, 3 for red, green and blue */
  TAPESTRY_HEIGHT = 4,     /* in pixels */
  TAPESTRY_WIDTH = 5,
  TAPESTRY_LATENT_DIMENSIONS = 6, /* Z */
  TAPESTRY_VARIATIONAL = 7,       /* 1 if codes have variances, 0 for a plain autoencoder */
  TAPESTRY_HORIZON = 8,           /* number of steps of a forecast */
  /* Lists of names, of which tapestry_size() returns the length. */
  TAPESTRY_TASK = 9,                /* one name: "language-model", "vae", ... */
  TAPESTRY_CLASSES = 10,            /* K names, of a classifier or of the data of a vae */
  TAPESTRY_SERIES = 11,             /* M names of a forecaster's inputs */
  TAPESTRY_TARGETS = 12,            /* K names of the series that are forecast */
  TAPESTRY_PREDICTION_COLUMNS = 13, /* P names: "prediction", "p:CLASS", ..., "unusual" */
  TAPESTRY_EXAMPLE_FIELDS = 14      /* F names of what an example consists of */
} tapestry_property;

/* Return a tapestry_property of a model, and the name at an index of one that is a list. */
tapestry_code tapestry_size(const tapestry_model* model, int property, int64_t* size);
tapestry_code tapestry_name(const tapestry_model* model, int property, int64_t index,
                            const char** name);

/* --- language-model --- */

/* Returns the tokens of a text, and their number in `*count`. `capacity` is the size of `tokens`;
   if there are more tokens the call fails. With null `tokens`, returns the number alone. */
tapestry_code tapestry_tokenize(const tapestry_model* model, const char* text, int32_t* tokens,
                                size_t capacity, size_t* count);
/* Returns the text of tokens from 0 to V - 1. `bytes`, without its final zero, may be null. */
tapestry_code tapestry_detokenize(const tapestry_model* model, const int32_t* tokens, size_t count,
                                  const char** text, size_t* bytes);
/* Returns the logits (count, V) of the token after each of 1 to T tokens; a recurrent network takes
   more. `size`: count * V. */
tapestry_code tapestry_logits(const tapestry_model* model, const int32_t* tokens, size_t count,
                              float* logits, size_t size);

/* The options of generation, which begin as TAPESTRY_GENERATION. */
typedef struct tapestry_generation {
  size_t struct_size;        /* sizeof(tapestry_generation) */
  int64_t tokens;            /* maximum number of tokens; 0: 500, or a whole name */
  double temperature;        /* 0 to 100; 0: greedy */
  int64_t top_k;             /* sample from the k most probable tokens; 0: from all */
  double top_p;              /* sample from the fewest tokens with this total probability, 0 to 1 */
  double min_p;              /* and from tokens with this fraction of the largest probability */
  double repetition_penalty; /* above 1: makes tokens of the text so far less probable */
  uint64_t seed;             /* equal seeds give equal texts */
  const char* const* stop;   /* generation ends before any of these texts; null if none */
  size_t stop_count;
} tapestry_generation;
#define TAPESTRY_GENERATION \
  { sizeof(tapestry_generation), 0, 1, 0, 1, 0, 1, 1, NULL, 0 }

/* Returns the text that follows the prompt, which may be empty. Null `options`:
   TAPESTRY_GENERATION. `take`, which may be null, receives each piece as it is generated. `text`
   and `bytes` may be null. */
tapestry_code tapestry_generate(const tapestry_model* model, const char* prompt,
                                const tapestry_generation* options, tapestry_take_text take,
                                void* user, const char** text, size_t* bytes);
/* Returns the tokens that follow one or more tokens, at most `capacity` and without the end token,
   and their number in `*count`. Ignores options->stop. */
tapestry_code tapestry_generate_tokens(const tapestry_model* model, const int32_t* prompt,
                                       size_t prompt_count, const tapestry_generation* options,
                                       int32_t* tokens, size_t capacity, size_t* count);

/* --- text-classification, translation --- */

/* Returns the probabilities (count, K) of the classes of one or more texts. `size`: count * K. */
tapestry_code tapestry_classify_texts(const tapestry_model* model, const char* const* texts,
                                      size_t count, float* probabilities, size_t size);
tapestry_code tapestry_translate(const tapestry_model* model, const char* sentence,
                                 const char** text, size_t* bytes);

/* --- vae, image-classification: N images are numbers (N, channels, height, width), scaled as in
   the data, 0 to 1; others are wrong arguments. `count` is their number: N * channels * height *
   width. --- */

/* Reads PNG or JPEG files, fitted to the size of the model's images. `size`: that of N = `files`
   images. */
tapestry_code tapestry_read_pictures(const tapestry_model* model, const char* const* paths,
                                     size_t files, float* images, size_t size);
/* Returns the probabilities (N, K) of the classes. `size`: N * K. */
tapestry_code tapestry_classify(const tapestry_model* model, const float* images, size_t count,
                                float* probabilities, size_t size);
/* Returns the means (N, Z) of the latent codes and, unless null, the logarithms of their variances,
   which the codes of a plain autoencoder lack. `size`: N * Z. */
tapestry_code tapestry_encode(const tapestry_model* model, const float* images, size_t count,
                              float* means, float* log_variances, size_t size);
/* Returns the N images of latent codes (N, Z). `count`: N * Z; `size`: that of N images. */
tapestry_code tapestry_decode(const tapestry_model* model, const float* latents, size_t count,
                              float* images, size_t size);
/* Returns the decoded means of tapestry_encode(). `count` is the size of both arrays. */
tapestry_code tapestry_reconstruct(const tapestry_model* model, const float* images, size_t count,
                                   float* reconstructions);

/* --- forecast --- */

/* Maps T steps of M series in their own units to the forecast (horizon, K). NaN is what was not
   measured; a target without a measured value has the forecast NaN. `count`: T * M; `size`:
   horizon * K. */
tapestry_code tapestry_forecast(const tapestry_model* model, const float* window, size_t count,
                                float* forecast, size_t size);
/* The same for a model with model.cycle, which needs the time of the window's first row:
   `first_step` is the steps of the series from 1970-01-01 00:00 to it, or its number, from 0, if
   the data have no times. Other models ignore it. */
tapestry_code tapestry_forecast_at(const tapestry_model* model, const float* window, size_t count,
                                   int64_t first_step, float* forecast, size_t size);

/* --- all tasks: what `tapestry predict` writes --- */

/* An example that was predicted. Its texts are valid during the call that receives it. */
typedef struct tapestry_example {
  const char* place;        /* "line 7", the path of a file, or "example 0" */
  const char* const* cells; /* its cells, as they were given */
  size_t cell_count;
  const char* const* prediction; /* P cells, or none if there is a flaw */
  size_t prediction_count;
  const char* flaw; /* why it has no prediction; else "" */
} tapestry_example;
/* Receives examples in their order, and returns 0 to stop. */
typedef int (*tapestry_take_example)(void* user, const tapestry_example* example);

/* Predicts the examples of a file or folder. */
tapestry_code tapestry_predict_file(const tapestry_model* model, const char* path,
                                    tapestry_take_example take, void* user);
/* Predicts `count` examples of F cells each. `cell_count`: count * F. Not for a graph or a series,
   which are predicted as a whole. */
tapestry_code tapestry_predict(const tapestry_model* model, const char* const* cells,
                               size_t cell_count, tapestry_take_example take, void* user);

/* --- trainings --- */

/* What is trained. It begins as TAPESTRY_TRAINING, and `config` must be set. */
typedef struct tapestry_training {
  size_t struct_size;           /* sizeof(tapestry_training) */
  const char* config;           /* a TOML file, or the name of a shipped config */
  const char* const* overrides; /* "train.steps=100", applied last, as --set */
  size_t override_count;
  const char* from; /* start from the weights and [model] of this run or checkpoint; or null */
} tapestry_training;
#define TAPESTRY_TRAINING \
  { sizeof(tapestry_training), NULL, NULL, 0, NULL }

/* Trains as `tapestry train` does, into a run's folder with the same files, and returns its path.
   Null `folder`: runs/<name of the config>, or the first unused one of runs/<name>-2, -3, ...
   `resume`: 1 continues the training of the folder, else 0. `take`, which may be null, receives
   each line of metrics.jsonl, and {"message":"..."} for a note to the user; if it returns 0, the
   training ends after its step with a checkpoint and can be resumed. Prints nothing, installs no
   signal handlers, and does not use train.threads. */
tapestry_code tapestry_train(const tapestry_training* training, const char* folder, int resume,
                             tapestry_take_text take, void* user, const char** run);

/* Data in memory, read as files of the same content are. It begins as TAPESTRY_DATA; one kind is
   set. */
typedef struct tapestry_data {
  size_t struct_size;          /* sizeof(tapestry_data) */
  const char* const* names;    /* of files ("notes.txt"), of series, or of columns of a table */
  size_t name_count;           /* 0 for images */
  const char* const* contents; /* of files */
  const size_t* bytes;         /* of contents */
  const double* series;        /* (rows, name_count), of float32; NaN: not measured */
  const char* const* cells;    /* of a table: (rows, name_count) */
  size_t rows;                 /* of series or a table */
  const float* pixels;         /* of images: (images, channels, height, width), 0 to 1 */
  const int32_t* labels;       /* (images), from 0 on; null: all 0, for an autoencoder */
  size_t images, channels, height, width;
} tapestry_data;
#define TAPESTRY_DATA \
  { sizeof(tapestry_data), NULL, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0 }

/* Trains on data in memory, or on those of the config if `data` is null, and returns the model with
   the last weights in `*model`, unless null. `checkpoint`: the file to write at the end, which
   tapestry_load() and `tapestry` read; null: nothing is written. It is tried before the training
   begins. `take` as in tapestry_train(). */
tapestry_code tapestry_train_in_memory(const tapestry_training* training, const tapestry_data* data,
                                       const char* checkpoint, tapestry_take_text take, void* user,
                                       tapestry_model** model);

/* Passes each line of a run's metrics.jsonl, a JSON object without its line end, to `take`. */
tapestry_code tapestry_read_metrics(const char* run, tapestry_take_text take, void* user);

#ifdef __cplusplus
}
#endif

#endif
