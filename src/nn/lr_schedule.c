// Learning rates over time: shoal_lr_schedule_t. Every kind but `step` is a broken line: pieces
// that each lead from one factor to the next along a curve, and are flat before and behind. So the
// factor is
//   first + sum over pieces of (to - from) curve(clamp((t - start) / length, 0, 1)),
// in f64, with t the steps that were taken before this one. References: PyTorch's LinearLR,
// CosineAnnealingLR, StepLR and OneCycleLR; transformers' get_linear_schedule_with_warmup,
// get_cosine_schedule_with_warmup and get_wsd_schedule.
#include <math.h>
#include <string.h>

#include "base/locale.h"
#include "graph/builder.h"
#include "nn/optimizer.h"
#include "shoal/options.h"

typedef enum curve { LINEAR, COSINE, ROOT } curve_t;

typedef struct line {
  shoal_graph_t *graph;
  shoal_value_t t;       // f64
  shoal_value_t factor;  // so far; zero: `level`
  double at, level;      // where the line has got to
} line_t;

// Leads on to the factor `to` at t = end.
static void lead(line_t *line, double end, double to, curve_t curve) {
  shoal_graph_t *graph = line->graph;
  const double length = end - line->at;
  shoal_value_t p = shoal_affine(graph, line->t, 1 / length, -line->at / length);
  p = shoal_clamp(graph, p, 0, 1);
  double scale = to - line->level, start = line->level;
  if (curve == COSINE) {  // (1 - cos(pi p)) / 2
    p = shoal_cos(graph, shoal_affine(graph, p, 3.14159265358979323846, 0));
    start = (line->level + to) / 2;
    scale = (line->level - to) / 2;
  } else if (curve == ROOT) {
    p = shoal_sqrt(graph, p);
  }
  // the first piece brings the level with it, later ones only what they change
  p = shoal_affine(graph, p, scale, line->factor.graph ? start - line->level : start);
  line->factor = line->factor.graph ? shoal_add(graph, line->factor, p) : p;
  line->at = end;
  line->level = to;
}

// ---- kinds --------------------------------------------------------------------------------------

static void add_linear(line_t *line, const shoal_lr_schedule_t *schedule) {
  lead(line, (double)schedule->steps, schedule->last_factor, LINEAR);
}

static void add_cosine(line_t *line, const shoal_lr_schedule_t *schedule) {
  lead(line, (double)schedule->steps, schedule->last_factor, COSINE);
}

// factor * gamma^floor((t - warmup) / every)
static void add_steps(line_t *line, const shoal_lr_schedule_t *schedule) {
  shoal_graph_t *graph = line->graph;
  shoal_value_t since = shoal_affine(graph, line->t, 1, -line->at);
  since = shoal_clamp(graph, since, 0, INFINITY);
  const shoal_value_t every = shoal_nn_number(graph, SHOAL_F64, (double)schedule->decay_every);
  const shoal_value_t times = shoal_floor(graph, shoal_div(graph, since, every));
  const shoal_value_t power =
      shoal_exp(graph, shoal_affine(graph, times, log(shoal_nn_or(schedule->gamma, 0.1)), 0));
  line->factor = line->factor.graph ? shoal_mul(graph, line->factor, power) : power;
}

static void add_one_cycle(line_t *line, const shoal_lr_schedule_t *schedule) {
  const curve_t curve = schedule->curve && strcmp(schedule->curve, "linear") == 0 ? LINEAR : COSINE;
  const double total = (double)schedule->steps, risen = shoal_nn_or(schedule->rise, 0.3) * total;
  const double low = 1 / shoal_nn_or(schedule->div, 25);
  line->level = low;
  lead(line, risen - 1, 1, curve);
  if (schedule->three_phases) lead(line, 2 * risen - 2, low, curve);
  lead(line, total - 1, low / shoal_nn_or(schedule->final_div, 1e4), curve);
}

static int64_t decay_of(const shoal_lr_schedule_t *schedule) {
  return schedule->decay_steps ? schedule->decay_steps : (schedule->steps + 9) / 10;
}

static void add_wsd(line_t *line, const shoal_lr_schedule_t *schedule) {
  const char *name = schedule->curve ? schedule->curve : "linear";
  line->at = (double)(schedule->steps - decay_of(schedule));
  lead(line, (double)schedule->steps, schedule->last_factor,
       name[0] == 's'   ? ROOT
       : name[0] == 'c' ? COSINE
                        : LINEAR);
}

static const struct {
  const char *name;
  void (*add)(line_t *line,
              const shoal_lr_schedule_t *schedule);  // NULL: nothing behind the warm-up
  bool has_end;                                      // needs `steps`
} KINDS[] = {{"constant", NULL, false},          {"linear", add_linear, true},
             {"cosine", add_cosine, true},       {"step", add_steps, false},
             {"one_cycle", add_one_cycle, true}, {"wsd", add_wsd, true}};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

// ---- what does not go ---------------------------------------------------------------------------

static void check_curve(shoal_graph_t *graph, const shoal_lr_schedule_t *schedule,
                        const char *kind) {
  static const char *const curves[] = {"linear", "cosine", "sqrt"};
  const int32_t count = strcmp(kind, "wsd") == 0 ? 3 : strcmp(kind, "one_cycle") == 0 ? 2 : 0;
  for (int32_t i = 0; schedule->curve && i < count; ++i) {
    if (strcmp(schedule->curve, curves[i]) == 0) return;
  }
  if (!schedule->curve) return;
  shoal_hint_t hint;
  shoal_nn_refuse_hint(graph,
                       shoal_did_you_mean(schedule->curve, curves, count,
                                          "one_cycle has linear and cosine, wsd also sqrt", &hint),
                       "lr_schedule '%s' has no curve '%s'", kind, schedule->curve);
}

static void check_lengths(shoal_graph_t *graph, const shoal_lr_schedule_t *schedule, int32_t kind) {
  const char *name = KINDS[kind].name;
  const long long steps = schedule->steps, warmup = schedule->warmup, decay = decay_of(schedule);
  if (schedule->warmup < 0 || schedule->steps < 0 || schedule->decay_steps < 0) {
    shoal_nn_refuse(graph, "lr_schedule '%s' has a negative number of steps", name);
  } else if (KINDS[kind].has_end && steps <= warmup) {
    shoal_nn_refuse_hint(
        graph,
        "--lr-schedule-steps (lr_schedule.steps) are those of the whole training, warm-up included",
        "lr_schedule '%s' has %lld steps, %lld of them for the warm-up", name, steps, warmup);
  } else if (strcmp(name, "wsd") == 0 && decay > steps - warmup) {
    shoal_nn_refuse(graph,
                    "lr_schedule 'wsd' has %lld steps behind the warm-up, and decays in "
                    "%lld",
                    steps - warmup, decay);
  } else if (strcmp(name, "step") == 0 && schedule->decay_every < 1) {
    shoal_nn_refuse_hint(
        graph, "--decay-every (lr_schedule.decay_every) says after how many steps the rate falls",
        "lr_schedule 'step' falls every %lld steps", (long long)schedule->decay_every);
  } else if (strcmp(name, "one_cycle") == 0) {
    const double risen = shoal_nn_or(schedule->rise, 0.3) * (double)steps;
    const double back = schedule->three_phases ? 2 * risen - 2 : risen - 1;
    if (schedule->warmup) {
      shoal_nn_refuse(graph, "lr_schedule 'one_cycle' has its own rise, and no warm-up");
    } else if (!(risen > 1 && back < (double)steps - 1)) {
      shoal_nn_refuse(graph,
                      "lr_schedule 'one_cycle' rises in %g of %lld steps, which leaves a "
                      "phase without a step",
                      risen, steps);
    }
  }
}

static void check_factors(shoal_graph_t *graph, const shoal_lr_schedule_t *schedule) {
  shoal_nn_check_factor(graph, "lr_schedule.first_factor", schedule->first_factor, INFINITY);
  shoal_nn_check_factor(graph, "lr_schedule.last_factor", schedule->last_factor, INFINITY);
  shoal_nn_check_factor(graph, "lr_schedule.gamma", schedule->gamma, INFINITY);
  shoal_nn_check_factor(graph, "lr_schedule.rise", schedule->rise, 1);
  shoal_nn_check_factor(graph, "lr_schedule.div", schedule->div, INFINITY);
  shoal_nn_check_factor(graph, "lr_schedule.final_div", schedule->final_div, INFINITY);
}

shoal_value_t shoal_nn_lr_factor(shoal_graph_t *graph, const shoal_lr_schedule_t *schedule,
                                 shoal_value_t step) {
  const char *names[KIND_COUNT], *wanted = schedule->kind ? schedule->kind : "constant";
  int32_t kind = KIND_COUNT;
  for (int32_t i = 0; i < KIND_COUNT; ++i) {
    names[i] = KINDS[i].name;
    if (strcmp(names[i], wanted) == 0) kind = i;
  }
  if (kind == KIND_COUNT) {
    shoal_hint_t hint;
    shoal_nn_refuse_hint(
        graph,
        shoal_did_you_mean(wanted, names, KIND_COUNT,
                           "constant, linear, cosine, step, one_cycle or wsd", &hint),
        "there is no lr_schedule '%s'", wanted);
    return shoal_none();
  }
  check_factors(graph, schedule);
  check_curve(graph, schedule, wanted);
  check_lengths(graph, schedule, kind);
  if (graph->model->error || (!KINDS[kind].add && !schedule->warmup)) return shoal_none();
  line_t line = {.graph = graph, .level = 1};
  line.t = shoal_affine(graph, shoal_cast(graph, step, SHOAL_F64), 1, -1);
  if (schedule->warmup) {
    line.level = schedule->first_factor;
    lead(&line, (double)schedule->warmup, 1, LINEAR);
  }
  if (KINDS[kind].add) KINDS[kind].add(&line, schedule);
  return line.factor;
}
