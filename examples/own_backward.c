// A pipeline over forward and backward functions that Shoal knows nothing of: two layers, y = b
// tanh(a x), on two ranks, learn the function 0.8 tanh(1.5 x) in micro-batches. The engine calls
// them in the order of a schedule and moves activations and gradients between the ranks. Two
// tensors cross the border: what the first layer makes, and the samples, from which the second
// layer computes what is to be learnt.
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>

enum { ROWS = 4, MICRO = 8, STEPS = 200 };

// One layer and what it keeps of each micro-batch from F to B.
typedef struct layer {
  double weight, gradient, loss;
  double in[MICRO][ROWS], samples[MICRO][ROWS];
} layer_t;

static double sample(int micro, int row) {
  return (micro * ROWS + row) / 8.0 - 2;
}

static shoal_status_t forward(void *self, const shoal_engine_work_t *work) {
  layer_t *layer = self;
  for (int i = 0; i < ROWS; ++i) {
    if (work->stage == 0) {
      const double x = layer->in[work->micro][i] = sample(work->micro, i);
      ((double *)work->outs[0].data)[i] = tanh(layer->weight * x);
      ((double *)work->outs[1].data)[i] = x;
    } else {
      layer->in[work->micro][i] = ((const double *)work->ins[0].data)[i];
      layer->samples[work->micro][i] = ((const double *)work->ins[1].data)[i];
    }
  }
  return NULL;
}

static shoal_status_t backward(void *self, const shoal_engine_work_t *work) {
  layer_t *layer = self;
  for (int i = 0; i < ROWS; ++i) {
    const double x = layer->in[work->micro][i];
    if (work->stage == 1) {  // the loss: the square of what is missing, averaged
      const double off = layer->weight * x - 0.8 * tanh(1.5 * layer->samples[work->micro][i]);
      const double slope = 2 * off / (ROWS * MICRO);
      layer->loss += off * off / (ROWS * MICRO);
      layer->gradient += slope * x;
      ((double *)work->out)[i] = slope * layer->weight;  // of outs[0]; nobody asks for outs[1]
    } else {
      const double y = tanh(layer->weight * x);
      layer->gradient += ((const double *)work->in)[i] * (1 - y * y) * x;
    }
  }
  return NULL;
}

static shoal_status_t train(void *self, shoal_world_t *world, int32_t rank) {
  const shoal_schedule_t *schedule = self;
  layer_t layer = {.weight = 1};
  shoal_engine_t *engine;
  SHOAL_RETURN_IF_ERROR(shoal_engine_create(
      world,
      &(shoal_engine_options_t){.schedule = schedule,
                                .bytes = (int64_t[]){ROWS * sizeof(double), ROWS * sizeof(double)},
                                .counts = (int32_t[]){2},
                                .forward = forward,
                                .backward = backward,
                                .user_data = &layer},
      &engine));
  shoal_status_t status = NULL;
  for (int step = 0; step < STEPS && !status; ++step) {
    layer.loss = layer.gradient = 0;
    status = shoal_engine_run(engine);
    layer.weight -= 0.5 * layer.gradient;
  }
  shoal_engine_free(engine);
  if (!status && rank == 1) printf("loss %.6f, weight %.3f\n", layer.loss, layer.weight);
  return status;
}

int main(void) {
  shoal_arena_t *arena = NULL;
  const shoal_schedule_t *schedule = NULL;
  shoal_status_t status = shoal_arena_create(shoal_allocator_system(), &arena);
  if (!status)
    status = shoal_schedule_create(
        "1f1b", &(shoal_pipeline_t){.mesh_count = 2, .stage_count = 2, .micro = MICRO}, arena,
        &schedule);
  if (!status)
    status =
        shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 2}, train, (void *)schedule, NULL);
  if (status) shoal_status_print(status, stderr);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_arena_free(arena);
  return code;
}
