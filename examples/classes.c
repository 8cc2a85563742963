// A classifier of very many classes, as in EPL's tutorial: a residual network that all ranks have
// (replicated: each takes rows of the batch), and a classifier that no rank has as a whole (split:
// each has a part of the classes). The loss and the accuracy are computed where the logits are:
// these are never gathered.
//
//   ./classes                                       proves on 4 ranks that it equals one device
//   shoal run -n 4 -- ./classes 100000 32 64        classes, rows of a batch, features; trains
#include <shoal/ops.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 3, SIZE = 16, STEPS = 5, BLOCKS = 3 };

typedef struct sizes {
  int64_t classes, rows, features;
  shoal_dtype_t dtype;
} sizes_t;

// Two convolutions and a shortcut past them; both halve height and width.
static shoal_value_t block(shoal_graph_t *g, const char *name, shoal_value_t x, int64_t channels) {
  shoal_scope_push(g, name);
  shoal_value_t past = shoal_nn_conv2d(g, "past", x, channels, 1, 2, 0);
  x = shoal_nn_conv2d(g, "conv1", x, channels, 3, 2, 1);
  x = shoal_relu(g, shoal_nn_batch_norm(g, "norm1", x, NULL));
  x = shoal_nn_conv2d(g, "conv2", x, channels, 3, 1, 1);
  x = shoal_nn_batch_norm(g, "norm2", x, NULL);
  x = shoal_relu(g, shoal_add(g, x, past));
  shoal_scope_pop(g);
  return x;
}

static shoal_value_t resnet(shoal_graph_t *g, shoal_value_t x, int64_t features) {
  char name[16];
  for (int i = 0; i < BLOCKS; ++i) {
    snprintf(name, sizeof name, "block%d", i);
    x = block(g, name, x, features >> (BLOCKS - 1 - i));
  }
  return shoal_reduce_mean(g, x, SHOAL_SHAPE(2, 3));  // [rows, features]
}

static void train(shoal_graph_t *g, const sizes_t *s) {
  shoal_value_t images =
      shoal_input(g, "images", s->dtype, SHOAL_SHAPE(s->rows, CHANNELS, SIZE, SIZE));
  shoal_value_t labels = shoal_input(g, "labels", SHOAL_I32, SHOAL_SHAPE(s->rows));
  shoal_value_t features, logits, loss, guesses, right;
  shoal_with_replicate(g, 0) features = resnet(g, images, s->features);
  shoal_with_split(g, 0) {
    logits = shoal_nn_linear(g, "head", features, s->classes);
    loss = shoal_nn_cross_entropy(g, logits, labels);
    guesses = shoal_cast(g, shoal_argmax(g, logits, 1), SHOAL_I32);
    right = shoal_cast(g, shoal_equal(g, guesses, labels), SHOAL_F32);
  }
  const shoal_adamw_t adamw = {.lr = 1e-3, .eps = 1e-3};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
  shoal_output(g, "accuracy", shoal_reduce_mean(g, right, SHOAL_SHAPE(0)));
}

static shoal_status_t prove(void) {
  const sizes_t sizes = {.classes = 1003, .rows = 6, .features = 8, .dtype = SHOAL_F64};
  const shoal_check_how_t how = {.ranks = 4, .steps = 2};
  shoal_check_report_t report = {0};
  shoal_model_t *model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"), &sizes);
  shoal_status_t status = shoal_check(model, NULL, &how, &report);
  if (!status) printf("%lld values of 4 ranks agree with one device\n", (long long)report.values);
  shoal_model_free(model);
  return status;
}

// Pictures whose brightness tells the class; every rank makes the same batch.
static void make_batch(unsigned *seed, const sizes_t *s, float *images, int32_t *labels) {
  for (int64_t i = 0; i < s->rows; ++i) {
    *seed = *seed * 1664525u + 1013904223u;
    labels[i] = (int32_t)(*seed % (unsigned)s->classes);
    for (int64_t p = 0; p < CHANNELS * SIZE * SIZE; ++p) {
      *seed = *seed * 1664525u + 1013904223u;
      images[i * CHANNELS * SIZE * SIZE + p] =
          (float)(*seed >> 8) / (1 << 24) + (float)labels[i] / (float)s->classes;
    }
  }
}

static shoal_status_t run(shoal_session_t *s, const sizes_t *sizes) {
  const size_t image_bytes = (size_t)sizes->rows * CHANNELS * SIZE * SIZE * sizeof(float);
  const size_t label_bytes = (size_t)sizes->rows * sizeof(int32_t);
  float *images = malloc(image_bytes), loss, accuracy;
  int32_t *labels = malloc(label_bytes);
  const bool first = shoal_world_rank(shoal_session_world(s)) == 0;
  unsigned seed = 1;
  shoal_status_t status = NULL;
  if (!images || !labels) {
    status = SHOAL_ERROR(OUT_OF_MEMORY, "no memory for a batch");
    goto done;
  }
  for (int step = 1; step <= STEPS; ++step) {
    make_batch(&seed, sizes, images, labels);
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "images", images, image_bytes));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "labels", labels, label_bytes));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "accuracy", &accuracy, sizeof accuracy));
    if (first) printf("step %d loss %.4f accuracy %.3f\n", step, (double)loss, (double)accuracy);
  }
done:
  free(images);
  free(labels);
  return status;
}

static shoal_status_t learn(const sizes_t *sizes) {
  shoal_model_t *model = NULL;
  shoal_session_t *session = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"), sizes);
  shoal_status_t status = shoal_parallelize(model, NULL, &session);  // as the model says
  if (!status) {
    const shoal_memory_report_t memory = shoal_session_memory(session);
    if (shoal_world_rank(shoal_session_world(session)) == 0)
      printf("%lld parameters; a rank plans %.1f MiB\n", (long long)shoal_model_parameters(model),
             (double)memory.arena_planned[SHOAL_MEMORY_DEVICE] / (1 << 20));
    status = run(session, sizes);
  }
  shoal_session_free(session);
  shoal_model_free(model);
  return status;
}

int main(int argc, char **argv) {
  sizes_t sizes = {.classes = argc > 1 ? strtoll(argv[1], NULL, 10) : 0,
                   .rows = argc > 2 ? strtoll(argv[2], NULL, 10) : 32,
                   .features = argc > 3 ? strtoll(argv[3], NULL, 10) : 64,
                   .dtype = SHOAL_F32};
  shoal_status_t status = sizes.classes > 0 ? learn(&sizes) : prove();
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}
