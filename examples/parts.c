// States in parts: a weight that no rank needs to hold whole. Each rank says which elements it
// holds, fills them with values of its own making, and saves them beside the steps. Alone it holds
// everything; try `shoal run -n 3 -- ./parts /tmp/parts`.
#include <shoal/shoal.h>
#include <stdio.h>

enum { BATCH = 12, FEATURES = 30, HIDDEN = 20, CLASSES = 3, STEPS = 8 };

static void train(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, FEATURES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "in", x, HIDDEN));
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "out", h, CLASSES), y);
  shoal_adamw_t adamw = {.lr = 1e-2};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

// Fills the rank's part with a wave over the whole: shoal_place_global says where an element lies.
static shoal_status_t fill(shoal_session_t *s, shoal_arena_t *arena) {
  shoal_boxes_t boxes;
  shoal_place_t place;
  SHOAL_RETURN_IF_ERROR(shoal_session_boxes(s, "in/weight", arena, &boxes));
  SHOAL_RETURN_IF_ERROR(shoal_boxes_place(&boxes, arena, &place));
  const shoal_shape_t shape = shoal_boxes_shape(&boxes);
  const int64_t count = shoal_shape_count(&shape);
  float *part = shoal_arena_alloc(arena, (size_t)count, sizeof *part);
  if (!part) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) part[i] = (float)(shoal_place_global(&place, i) % 7 - 3) / 10;
  printf("rank %d fills %lld of %d elements\n", shoal_world_rank(shoal_session_world(s)),
         (long long)count, FEATURES * HIDDEN);
  return shoal_session_set_part(s, "in/weight", part, (size_t)count * sizeof *part);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : NULL;
  float xs[BATCH][FEATURES], loss = 0;
  int32_t ys[BATCH];
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  shoal_arena_t *arena = NULL;
  shoal_status_t status = NULL;
  for (int i = 0; i < BATCH * FEATURES; ++i) xs[i / FEATURES][i % FEATURES] = (float)(i % 5) / 5;
  for (int i = 0; i < BATCH; ++i) ys[i] = i % CLASSES;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_arena_create(shoal_allocator_system(), &arena));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"));
  const shoal_parallelize_options_t options = {.strategy = "zero3"};  // states are cut from birth
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, &options, &s));
  SHOAL_GOTO_IF_ERROR(status, done, fill(s, arena));
  for (int step = 1; step <= STEPS; ++step) {
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "x", xs, sizeof xs));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "y", ys, sizeof ys));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    if (step != STEPS / 2 || !folder) continue;
    // Goes on while the next steps run; an error would come with one of the next calls.
    const shoal_save_options_t beside = {.training = true, .async = true};
    SHOAL_GOTO_IF_ERROR(status, done, shoal_save_with(s, folder, &beside));
  }
  SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_session_wait(s));  // the checkpoint is whole
  if (shoal_world_rank(shoal_session_world(s)) == 0) printf("loss %.3f\n", (double)loss);
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  shoal_arena_free(arena);
  return code;
}
