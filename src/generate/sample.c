// One token from a row of logits: repetition, temperature, top-k, top-p, then a draw, in the order
// and with the borders of Hugging Face's processors. Arithmetic is in doubles.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/philox.h"
#include "base/status.h"
#include "generate/sample.h"

typedef struct candidate {
  double score;  // logit, then weight
  int32_t token;
} candidate_t;

static shoal_status_t check(const shoal_tensor_t *logits, const shoal_generate_options_t *o) {
  if (!(o->temperature >= 0) || !isfinite(o->temperature) || !(o->repetition >= 0) ||
      !isfinite(o->repetition)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "temperature %g and repetition %g must not be negative",
                       o->temperature, o->repetition);
  }
  if (!(o->top_p >= 0 && o->top_p <= 1) || o->top_k < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "top_p %g must be in [0, 1] and top_k %lld not negative",
                       o->top_p, (long long)o->top_k);
  }
  return logits->shape.rank == 1 && logits->shape.dims[0] > 0 && logits->shape.dims[0] <= INT32_MAX
             ? NULL
             : SHOAL_ERROR(INVALID_ARGUMENT, "there are no logits to draw from");
}

// Tokens that are there already: a positive logit is divided, a negative one multiplied. Once each.
static shoal_status_t penalize(candidate_t *all, int64_t count, const shoal_tokens_t *before,
                               double penalty, shoal_arena_t *arena) {
  if (penalty == 0 || penalty == 1 || !before) return NULL;
  bool *done = SHOAL_NEW(arena, bool, count);
  if (!done) return SHOAL_OOM();
  for (int64_t i = 0; i < before->count; ++i) {
    const int32_t token = before->ids[i];
    if (token < 0 || token >= count || done[token]) continue;
    done[token] = true;
    double *score = &all[token].score;
    *score = *score < 0 ? *score * penalty : *score / penalty;
  }
  return NULL;
}

// Likeliest first; the lower token of equals.
static int by_score(const void *a, const void *b) {
  const candidate_t *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return (x->token > y->token) - (x->token < y->token);
}

// Sorts, and drops what is less likely than the k-th; equals of it stay.
static int64_t keep_top_k(candidate_t *all, int64_t count, int64_t k) {
  if (k == 0 || k >= count) return count;
  const double least = all[k - 1].score;
  while (k < count && all[k].score == least) ++k;
  return k;
}

// Of weights that add up to `sum`: those before which less than the share p has come.
static int64_t keep_top_p(const candidate_t *all, int64_t count, double p, double sum) {
  double before = 0;
  int64_t kept = 0;
  while (kept < count && (kept == 0 || before < p * sum)) before += all[kept++].score;
  return kept;
}

static double add_up(const candidate_t *all, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += all[i].score;
  return sum;
}

// In (0, 1), from the seed and the numbers of prompt and token.
static double draw(uint64_t seed, int64_t prompt, int64_t index) {
  const uint64_t low = shoal_philox_word(seed, (uint64_t)prompt, (uint64_t)index, 0);
  const uint64_t high = shoal_philox_word(seed, (uint64_t)prompt, (uint64_t)index, 1);
  return ((double)((high << 21) ^ (low >> 11)) + 0.5) * 0x1p-53;
}

static shoal_status_t sample(candidate_t *all, int64_t count, const shoal_generate_options_t *o,
                             int64_t prompt, int64_t index, int32_t *out_token) {
  for (int64_t i = 0; i < count; ++i) all[i].score /= o->temperature;
  // The order also makes sums the same whatever order the logits came in.
  qsort(all, (size_t)count, sizeof *all, by_score);
  count = keep_top_k(all, count, o->top_k);
  const double most = all[0].score;
  if (!isfinite(most)) return SHOAL_ERROR(MISMATCH, "the largest logit is %g", most);
  for (int64_t i = 0; i < count; ++i) all[i].score = exp(all[i].score - most);
  if (o->top_p > 0 && o->top_p < 1) count = keep_top_p(all, count, o->top_p, add_up(all, count));
  const double at = draw(o->seed, prompt, index) * add_up(all, count);
  double sum = 0;
  int64_t chosen = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (all[i].score == 0) break;
    chosen = i;  // the last one where rounding leaves the sum below
    sum += all[i].score;
    if (at < sum) break;
  }
  *out_token = all[chosen].token;
  return NULL;
}

shoal_status_t shoal_sample_in(shoal_arena_t *arena, const shoal_tensor_t *logits,
                               const shoal_tokens_t *before, const shoal_generate_options_t *o,
                               int64_t prompt, int64_t index, int32_t *out_token) {
  SHOAL_RETURN_IF_ERROR(check(logits, o));
  const int64_t count = logits->shape.dims[0];
  candidate_t *all = SHOAL_NEW(arena, candidate_t, count);
  if (!all) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const double score = shoal_dtype_load(logits->dtype, logits->data, i);
    if (isnan(score)) {
      return SHOAL_ERROR(MISMATCH, "the logit of token %lld is NaN", (long long)i);
    }
    all[i] = (candidate_t){score, (int32_t)i};
  }
  SHOAL_RETURN_IF_ERROR(penalize(all, count, before, o->repetition, arena));
  if (o->temperature > 0) return sample(all, count, o, prompt, index, out_token);
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (all[i].score > all[best].score) best = i;
  }
  *out_token = all[best].token;
  return NULL;
}

shoal_status_t shoal_sample(const shoal_tensor_t *logits, const shoal_tokens_t *before,
                            const shoal_generate_options_t *options, int64_t prompt, int64_t index,
                            int32_t *out_token) {
  static const shoal_generate_options_t defaults;
  if (!options) options = &defaults;
  shoal_arena_t arena;
  shoal_arena_init(options->allocator.alloc ? options->allocator : shoal_allocator_system(),
                   &arena);
  shoal_status_t status =
      shoal_sample_in(&arena, logits, before, options, prompt, index, out_token);
  shoal_arena_deinit(&arena);
  return status;
}
