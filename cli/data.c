// See data.h.
#include "data.h"

#include <string.h>

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

// Does it learn which token follows, as any text says?
static bool learns_from_text(const shoal_dataset_options_t *options) {
  return options->input_count == 2 && has_column(options, "ids") && has_column(options, "labels") &&
         shoal_shape_equal(&options->inputs[0].shape, &options->inputs[1].shape);
}

static shoal_status_t open_data(const cli_data_options_t *o, const shoal_dataset_options_t *options,
                                shoal_dataset_t **out_data, shoal_dataset_t **out_held_out) {
  const char *path = o->data;
  if (!path && learns_from_text(options))
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
                                     .seed = seed};
  if (o->eval_data && o->held_out != 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one of them",
                            "--eval-data and --held-out do not go together");
  shoal_model_t *model = NULL;
  shoal_status_t status = find_columns(zoo, arena, &model, &options);
  if (!status) status = open_data(o, &options, out_data, out_held_out);
  shoal_model_free(model);
  if (status) {
    shoal_dataset_free(*out_data);
    shoal_dataset_free(*out_held_out);
    *out_data = *out_held_out = NULL;
  }
  return status;
}
