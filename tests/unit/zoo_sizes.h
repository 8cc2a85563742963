// Three models of the zoo, sized by structs: what tests compute sizes for. A zero is the family's
// default, but for the type, which is f64 where none is named: tests compare in it.
#ifndef SHOAL_TESTS_ZOO_SIZES_H_
#define SHOAL_TESTS_ZOO_SIZES_H_

#include <stdio.h>
#include <string.h>

#include "shoal/zoo.h"
#include "unit/unit.h"

typedef struct mlp_sizes {
  int64_t batch, in_features, hidden, classes, layers;
  shoal_dtype_t dtype;
  bool sgd;
  double dropout, lr, eps;
} mlp_sizes_t;

typedef struct gpt_sizes {
  int64_t batch, context, vocabulary, width, heads, layers;
  shoal_dtype_t dtype;
  bool tied;
  double dropout, lr, eps;
} gpt_sizes_t;

typedef struct cnn_sizes {
  int64_t batch, channels, size, classes;
  shoal_dtype_t dtype;
  double lr, eps;
} cnn_sizes_t;

typedef char sizes_text_t[512];

static inline void put_size(sizes_text_t text, const char *name, int64_t value) {
  const size_t used = strlen(text);
  if (value) snprintf(text + used, sizeof(sizes_text_t) - used, " %s=%lld", name, (long long)value);
}

// Adds the graphs "train" and "eval".
static inline void add_zoo(shoal_model_t *model, const char *family, sizes_text_t text,
                           shoal_dtype_t dtype, double dropout, shoal_recipe_t recipe) {
  const size_t used = strlen(text);
  snprintf(text + used, sizeof(sizes_text_t) - used, " dtype=%s", shoal_dtype_name(dtype));
  if (dropout != 0)
    snprintf(text + strlen(text), sizeof(sizes_text_t) - strlen(text), " dropout=%.17g", dropout);
  const shoal_zoo_options_t options = {.settings = text, .recipe = &recipe};
  shoal_zoo_t *zoo;
  assert_ok(shoal_zoo_create(family, &options, &zoo));
  shoal_zoo_add(zoo, model);
  shoal_zoo_free(zoo);
}

static inline void add_mlp(shoal_model_t *model, const mlp_sizes_t *s) {
  sizes_text_t text = "";
  put_size(text, "batch", s->batch);
  put_size(text, "in_features", s->in_features);
  put_size(text, "hidden", s->hidden);
  put_size(text, "classes", s->classes);
  put_size(text, "layers", s->layers);
  add_zoo(model, "mlp", text, s->dtype, s->dropout,
          (shoal_recipe_t){.optimizer = s->sgd ? "sgd" : "adamw", .lr = s->lr, .eps = s->eps});
}

static inline void add_gpt(shoal_model_t *model, const gpt_sizes_t *s) {
  sizes_text_t text = "";
  put_size(text, "batch", s->batch);
  put_size(text, "context", s->context);
  put_size(text, "vocabulary", s->vocabulary);
  put_size(text, "width", s->width);
  put_size(text, "heads", s->heads);
  put_size(text, "layers", s->layers);
  strcat(text, s->tied ? " tied=true" : " tied=false");
  add_zoo(model, "gpt2", text, s->dtype, s->dropout, (shoal_recipe_t){.lr = s->lr, .eps = s->eps});
}

static inline void add_cnn(shoal_model_t *model, const cnn_sizes_t *s) {
  sizes_text_t text = "";
  put_size(text, "batch", s->batch);
  put_size(text, "channels", s->channels);
  put_size(text, "size", s->size);
  put_size(text, "classes", s->classes);
  add_zoo(model, "cnn", text, s->dtype, 0, (shoal_recipe_t){.lr = s->lr, .eps = s->eps});
}

#endif  // SHOAL_TESTS_ZOO_SIZES_H_
