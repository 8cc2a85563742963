// See data.h.
#include "data.h"

#include <string.h>

#include "print.h"

// What the model takes, from a graph of one row that is thrown away.
static shoal_status_t find_columns(const shoal_zoo_t *zoo, shoal_arena_t *arena,
                                   shoal_model_t **out_model, shoal_dataset_options_t *options) {
  SHOAL_RETURN_IF_ERROR(shoal_model_create(NULL, out_model));
  shoal_graph_t *graph = shoal_model_graph(*out_model, "eval");
  shoal_zoo_build(zoo, graph, "eval", 1);
  SHOAL_RETURN_IF_ERROR(shoal_model_status(*out_model));
  return shoal_train_columns(graph, arena, &options->input_count, &options->inputs);
}

// A classifier: x, and one class for each row.
static bool takes_classes(const shoal_dataset_options_t *options) {
  if (options->input_count != 2) return false;
  for (int32_t i = 0; i < 2; ++i) {
    const shoal_column_t *column = &options->inputs[i];
    if (strcmp(column->name, "y") == 0) return column->shape.rank == 0;
  }
  return false;
}

static bool has_column(const shoal_dataset_options_t *options, const char *name) {
  for (int32_t i = 0; i < options->input_count; ++i)
    if (strcmp(options->inputs[i].name, name) == 0) return true;
  return false;
}

// Would it see the labels that a text has, the tokens that follow?
static bool sees_labels(const shoal_zoo_t *zoo, const shoal_dataset_options_t *options) {
  return shoal_zoo_family(zoo)->sees_ahead && has_column(options, "labels");
}

// Does it learn which token follows, or which ones it does not see, as any text says?
static bool learns_from_text(const shoal_zoo_t *zoo, const shoal_dataset_options_t *options) {
  if (sees_labels(zoo, options)) return false;
  if (options->input_count == 1) return has_column(options, "ids");
  return options->input_count == 2 && has_column(options, "ids") && has_column(options, "labels") &&
         shoal_shape_equal(&options->inputs[0].shape, &options->inputs[1].shape);
}

static shoal_status_t open_data(const shoal_zoo_t *zoo, const cli_data_options_t *o,
                                const shoal_dataset_options_t *options, shoal_dataset_t **out_data,
                                shoal_dataset_t **out_held_out) {
  const char *path = o->data;
  if (!path && learns_from_text(zoo, options))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--data FILE; any text will do",
                            "this model learns from a text, and none was given");
  if (!path) path = takes_classes(options) ? "classes" : "random";
  shoal_dataset_t *whole;
  SHOAL_RETURN_IF_ERROR(shoal_dataset_open(path, options, &whole));
  if (o->held_out == 0) {
    *out_data = whole;
  } else {
    shoal_status_t status = shoal_dataset_split(whole, o->held_out, out_data, out_held_out);
    shoal_dataset_free(whole);
    SHOAL_RETURN_IF_ERROR(status);
  }
  if (!o->eval_data) return NULL;
  return shoal_dataset_open(o->eval_data, options, out_held_out);
}

// Classes that the model would not look at.
static shoal_status_t check_classes(const shoal_zoo_t *zoo, const shoal_dataset_t *data,
                                    const shoal_dataset_options_t *options, shoal_arena_t *arena) {
  const char *classes = shoal_zoo_setting(zoo, "classes", arena);
  if (!classes || strcmp(classes, "0") != 0 || has_column(options, "y")) return NULL;
  if (!data || shoal_dataset_find_column(data, "y") < 0) return NULL;
  const char *name = shoal_zoo_family(zoo)->name;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--set classes=N, to sort texts into N classes",
                          "'%s' has classes (y), and this %s guesses tokens",
                          shoal_dataset_name(data), name);
}

// Labels that the model would read off the ids: its loss would fall, and it would learn nothing.
static shoal_status_t check_labels(const shoal_zoo_t *zoo, const shoal_dataset_t *data,
                                   const shoal_dataset_options_t *options, shoal_arena_t *arena) {
  if (!data || !sees_labels(zoo, options)) return NULL;
  const shoal_column_t *labels =
      shoal_dataset_column(data, shoal_dataset_find_column(data, "labels"));
  if (!labels || !labels->follows) return NULL;
  const bool masks = shoal_zoo_setting(zoo, "masked", arena) != NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          masks ? "--set masked=0.15 hides tokens of a text; else give arrays: "
                                  "--data ids=IDS.npy,labels=LABELS.npy"
                                : "give arrays of its inputs: --data ids=IDS.npy,labels=LABELS.npy",
                          "'%s' is a text, whose labels are the tokens that follow, and this %s "
                          "sees them among its ids",
                          shoal_dataset_name(data), shoal_zoo_family(zoo)->name);
}

// "0.5", or "0.485,0.456,0.406": for all channels, or for each of three.
static shoal_status_t parse_channels(const char *flag, const char *text, shoal_arena_t *arena,
                                     double out_values[3]) {
  static const shoal_option_t number = {.name = "number", .kind = SHOAL_OPTION_REAL};
  int count = 0;
  char *rest = text ? cli_format(arena, "%s", text) : NULL;
  if (text && !rest) return SHOAL_OOM();
  for (char *next; rest; rest = next, ++count) {
    next = strchr(rest, ',');
    if (next) *next++ = 0;
    if (count < 3)
      SHOAL_RETURN_IF_ERROR(
          shoal_options_set(&number, 1, "number", rest, flag, arena, &out_values[count]));
  }
  if (text && count != 1 && count != 3)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "for example 0.5, or 0.485,0.456,0.406",
                            "%s: '%s' is neither one number nor three", flag, text);
  if (count == 1) out_values[1] = out_values[2] = out_values[0];
  return NULL;
}

// A deviation of 0 would mean 1.
static shoal_status_t check_deviation(const double deviation[3], const char *text) {
  for (int c = 0; text && c < 3; ++c)
    if (!(deviation[c] > 0))
      return SHOAL_ERROR(INVALID_ARGUMENT, "--deviation: '%s' is not above zero", text);
  return NULL;
}

shoal_status_t cli_data_open(const shoal_zoo_t *zoo, const cli_data_options_t *o, uint64_t seed,
                             shoal_arena_t *arena, shoal_dataset_t **out_data,
                             shoal_dataset_t **out_held_out) {
  *out_data = *out_held_out = NULL;
  shoal_dataset_options_t options = {.kind = o->kind,
                                     .tokenizer = o->tokenizer,
                                     .test = o->test,
                                     .flip = o->flip,
                                     .random_crop = o->random_crop,
                                     .pad = o->pad,
                                     .resize = o->resize,
                                     .seed = seed};
  if (o->eval_data && o->held_out != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one of them",
                            "--eval-data and --held-out do not go together");
  SHOAL_RETURN_IF_ERROR(parse_channels("--mean", o->mean, arena, options.mean));
  SHOAL_RETURN_IF_ERROR(parse_channels("--deviation", o->deviation, arena, options.deviation));
  SHOAL_RETURN_IF_ERROR(check_deviation(options.deviation, o->deviation));
  shoal_model_t *model = NULL;
  shoal_status_t status = find_columns(zoo, arena, &model, &options);
  if (!status) status = open_data(zoo, o, &options, out_data, out_held_out);
  if (!status) status = check_classes(zoo, *out_data, &options, arena);
  if (!status) status = check_labels(zoo, *out_data, &options, arena);
  if (!status) status = check_labels(zoo, *out_held_out, &options, arena);
  shoal_model_free(model);
  if (status) {
    shoal_dataset_free(*out_data);
    shoal_dataset_free(*out_held_out);
    *out_data = *out_held_out = NULL;
  }
  return status;
}
