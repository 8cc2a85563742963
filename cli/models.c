// See models.h.
#include "models.h"

#include <stdio.h>
#include <string.h>

static void build_mlp(shoal_model_t *model, const cli_model_options_t *o, shoal_dtype_t dtype) {
  shoal_zoo_mlp(model, &(shoal_mlp_options_t){.batch = o->batch,
                                              .in_features = o->in_features,
                                              .hidden = o->hidden,
                                              .classes = o->classes,
                                              .layers = o->layers,
                                              .dtype = dtype,
                                              .sgd = o->sgd,
                                              .dropout = o->dropout,
                                              .lr = o->lr,
                                              .eps = o->eps});
}

static void build_gpt(shoal_model_t *model, const cli_model_options_t *o, shoal_dtype_t dtype) {
  shoal_zoo_gpt(model, &(shoal_gpt_options_t){.batch = o->batch,
                                              .context = o->context,
                                              .vocabulary = o->vocabulary,
                                              .width = o->width,
                                              .heads = o->heads,
                                              .layers = o->layers,
                                              .dtype = dtype,
                                              .dropout = o->dropout,
                                              .lr = o->lr,
                                              .eps = o->eps,
                                              .tied = o->tied});
}

static void build_cnn(shoal_model_t *model, const cli_model_options_t *o, shoal_dtype_t dtype) {
  shoal_zoo_cnn(model, &(shoal_cnn_options_t){.batch = o->batch,
                                              .channels = o->channels,
                                              .size = o->size,
                                              .classes = o->classes,
                                              .dtype = dtype,
                                              .lr = o->lr,
                                              .eps = o->eps});
}

static const struct {
  const char *name;
  void (*build)(shoal_model_t *model, const cli_model_options_t *options, shoal_dtype_t dtype);
} zoo[] = {{"mlp", build_mlp}, {"gpt", build_gpt}, {"cnn", build_cnn}};
#define ZOO_COUNT (sizeof zoo / sizeof zoo[0])

shoal_status_t cli_model_create(const char *name, const cli_model_options_t *options,
                                shoal_allocator_t allocator, shoal_model_t **out_model) {
  *out_model = NULL;
  const char *names[ZOO_COUNT];
  size_t index = ZOO_COUNT;
  for (size_t i = 0; i < ZOO_COUNT; ++i) {
    names[i] = zoo[i].name;
    if (strcmp(zoo[i].name, name) == 0) index = i;
  }
  if (index == ZOO_COUNT) {
    shoal_hint_t hint;
    return SHOAL_ERROR_HINT(
        NOT_FOUND,
        shoal_did_you_mean(name, names, (int64_t)ZOO_COUNT, "models are mlp, gpt and cnn", &hint),
        "there is no model '%s'", name);
  }
  shoal_dtype_t dtype;
  if (!shoal_dtype_parse(options->dtype ? options->dtype : "f32", &dtype) ||
      !shoal_dtype_is_float(dtype))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use f64, f32, bf16 or f16", "'%s' is no float type",
                            options->dtype);
  shoal_model_options_t model_options = {.allocator = allocator,
                                         .seed = (uint64_t)options->model_seed};
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&model_options, out_model));
  zoo[index].build(*out_model, options, dtype);
  shoal_status_t status = shoal_model_status(*out_model);
  if (status) {
    shoal_model_free(*out_model);
    *out_model = NULL;
  }
  return status;
}
