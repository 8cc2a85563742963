// See runs.h.
#include "base/runs.h"

enum { WORD = 64 };

static bool is_first(const shoal_runs_t *runs, int64_t number) {
  return runs->firsts[number / WORD] >> (number % WORD) & 1;
}

bool shoal_runs_init(shoal_arena_t *arena, int64_t count, shoal_runs_t *out_runs) {
  *out_runs = (shoal_runs_t){.count = count};
  out_runs->ends = SHOAL_NEW(arena, int64_t, count);
  out_runs->firsts = SHOAL_NEW(arena, uint64_t, count / WORD + 1);
  if (!out_runs->ends || !out_runs->firsts) return false;
  shoal_runs_reset(out_runs);
  return true;
}

void shoal_runs_reset(shoal_runs_t *runs) {
  for (int64_t i = 0; i <= runs->count / WORD; ++i) runs->firsts[i] = 0;
  if (runs->count == 0) return;
  runs->firsts[0] = 1;
  runs->ends[0] = runs->count;
}

int64_t shoal_runs_find(const shoal_runs_t *runs, int64_t number) {
  int64_t word = number / WORD;
  uint64_t bits = runs->firsts[word] & (~UINT64_C(0) >> (WORD - 1 - number % WORD));
  while (bits == 0) bits = runs->firsts[--word];  // 0 is always the first of a run
  return word * WORD + WORD - 1 - __builtin_clzll(bits);
}

int64_t shoal_runs_split(shoal_runs_t *runs, int64_t number) {
  if (number == runs->count || is_first(runs, number)) return -1;
  const int64_t outer = shoal_runs_find(runs, number);
  runs->ends[number] = runs->ends[outer];
  runs->ends[outer] = number;
  runs->firsts[number / WORD] |= UINT64_C(1) << (number % WORD);
  return outer;
}

void shoal_runs_join(shoal_runs_t *runs, int64_t from, int64_t to) {
  for (int64_t i = runs->ends[from]; i < to; i = runs->ends[i]) {
    runs->firsts[i / WORD] &= ~(UINT64_C(1) << (i % WORD));
  }
  runs->ends[from] = to;
}
