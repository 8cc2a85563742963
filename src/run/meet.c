// Meeting: how a collective call begins. Is all well on every rank, did they all make this call,
// and was what several of them hold given to them alike - the whole batch they feed, a part that
// several ranks hold, the value a state is set to?
//
// In the steady state this is one all-reduce of three words, as an agreement without comparing
// would be. Each rank brings its hashes times weights, and the weights of ranks that must have the
// same hash add up to zero: so does the sum, if they have. (Else it misses a difference once in
// about 2^60.) The weights depend on who was fed what; they are worked out when that changes, from
// what all ranks then tell each other. When the sum is not zero they tell each other too, and find
// out who differs in what. So the fast way never raises an error, and never misses that something
// has changed.
//
// Not compared: elements that ranks hold as parts of different parts, as in halos; and a whole that
// one rank was fed with the parts that others were.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- keys and weights -----------------------------------------------------------------

uint64_t shoal_run_key(uint64_t key, int32_t micro, const shoal_boxes_t *boxes) {
  uint64_t hash = shoal_hash_int(key ? key : SHOAL_HASH_START, micro);
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    const shoal_dim_part_t *part = &boxes->dims[d];
    hash = shoal_hash_int(hash, part->held_count);
    for (int32_t i = 0; i < part->held_count; ++i) {
      hash = shoal_hash_int(shoal_hash_int(hash, part->held[i].start), part->held[i].size);
    }
  }
  if (boxes->flat) hash = shoal_hash_int(shoal_hash_int(hash, boxes->from), boxes->to);
  return hash > SHOAL_RUN_WHOLE ? hash : hash + 2;
}

// Every bit of the result depends on every bit of x (the finalizer of SplitMix: Steele, Lea and
// Flood, 2014). Weights must not be alike, or differences in two places could cancel.
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// Of the member at `index` of `count` that share a key: what it adds, the next one takes away.
static uint64_t weight_of(uint64_t key, int64_t index, int64_t count) {
  const uint64_t seed = mix(key + SHOAL_HASH_START);
  return mix(seed + (uint64_t)index) - mix(seed + (uint64_t)((index + 1) % count));
}

static bool is_input_of(const shoal_run_input_t *input, const char *graph) {
  return graph && strcmp(input->port->graph, graph) == 0;
}

// ---- who differs ----------------------------------------------------------------------

// What a rank has under a key; key 0: nothing.
typedef struct entry {
  uint64_t key, value;
  int32_t rank;
} entry_t;

typedef struct difference {
  int32_t reference;  // the rank that the others are compared with
  int32_t first;      // the lowest of them that differs
  uint64_t key;
  char ranks[112];  // "rank 1" or "ranks 1, 3, 4 and 12 more"
} difference_t;

static int by_key_and_rank(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

// What more than half of them have, or else what the first has.
static const entry_t *find_reference(const entry_t *entries, int64_t count) {
  const entry_t *candidate = entries;
  int64_t votes = 0, same = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (votes == 0) candidate = &entries[i];
    votes += entries[i].value == candidate->value ? 1 : -1;
  }
  const entry_t *first = NULL;
  for (int64_t i = 0; i < count; ++i) {
    if (entries[i].value != candidate->value) continue;
    if (!first) first = &entries[i];
    ++same;
  }
  return same * 2 > count ? first : entries;
}

// Entries of one key, by rank.
static bool differ(const entry_t *entries, int64_t count, difference_t *out_difference) {
  const entry_t *reference = find_reference(entries, count);
  char list[64] = "";
  int64_t odd = 0, listed = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (entries[i].value == reference->value) continue;
    if (odd++ == 0) out_difference->first = entries[i].rank;
    if (odd > 6) continue;
    const size_t length = strlen(list);
    snprintf(list + length, sizeof list - length, "%s%d", odd > 1 ? ", " : "", entries[i].rank);
    listed = odd;
  }
  char more[32] = "";
  if (odd > listed) snprintf(more, sizeof more, " and %lld more", (long long)(odd - listed));
  snprintf(out_difference->ranks, sizeof out_difference->ranks, "rank%s %s%s", odd > 1 ? "s" : "",
           list, more);
  out_difference->reference = reference->rank;
  out_difference->key = reference->key;
  return odd > 0;
}

// Sorts the entries. The difference whose reference has the lowest rank; and where this rank stands
// among those with its key (count 0: it has none).
static bool find_difference(entry_t *entries, int32_t size, int32_t rank, int64_t *out_index,
                            int64_t *out_count, difference_t *out_difference) {
  bool found = false;
  *out_index = *out_count = 0;
  qsort(entries, (size_t)size, sizeof *entries, by_key_and_rank);
  for (int64_t i = 0, next; i < size; i = next) {
    for (next = i + 1; next < size && entries[next].key == entries[i].key;) ++next;
    if (entries[i].key == 0) continue;
    for (int64_t k = i; k < next; ++k) {
      if (entries[k].rank == rank) *out_index = k - i, *out_count = next - i;
    }
    difference_t difference;
    if (!differ(&entries[i], next - i, &difference)) continue;
    if (!found || difference.reference < out_difference->reference) *out_difference = difference;
    found = true;
  }
  return found;
}

// ---- telling each other ---------------------------------------------------------------

typedef struct call_record {
  char text[104];  // shoal_run("train")
  int64_t run;     // how many went before
  uint64_t has_value, value;
} call_record_t;

typedef struct input_record {
  uint64_t key, hash;
} input_record_t;

// Room for what is told; the same on all ranks.
typedef struct table {
  int32_t size;
  int64_t input_count;  // of the graph
  int64_t *counts;
  call_record_t *calls;
  input_record_t *mine, *inputs;  // [input]; [rank][input]
  entry_t *entries;
} table_t;

static shoal_status_t make_table(const shoal_runner_t *runner, shoal_arena_t *arena,
                                 table_t *table) {
  table->size = shoal_world_size(runner->world);
  const int64_t most = runner->program->input_count;
  table->counts = SHOAL_NEW(arena, int64_t, table->size);
  table->calls = SHOAL_NEW(arena, call_record_t, table->size);
  table->entries = SHOAL_NEW(arena, entry_t, table->size);
  table->mine = SHOAL_NEW(arena, input_record_t, most);
  table->inputs = SHOAL_NEW(arena, input_record_t, table->size * most);
  return table->counts && table->calls && table->entries && table->mine && table->inputs
             ? NULL
             : SHOAL_OOM();
}

static shoal_status_t gather(const shoal_runner_t *runner, table_t *table, int64_t bytes,
                             const void *mine, void *all) {
  const int64_t words = bytes / (int64_t)sizeof(int64_t);
  for (int32_t r = 0; r < table->size; ++r) table->counts[r] = words;
  return shoal_all_gather(runner->everyone, SHOAL_I64, table->counts, mine, all);
}

// Only what differs between ranks that should be alike is an error: a sum may also be other than
// zero because ranks were fed in another way than the weights were made for.
static shoal_status_t compare_calls(const shoal_runner_t *runner, table_t *table,
                                    const shoal_run_meeting_t *mine) {
  call_record_t record = {
      .run = runner->run_count, .has_value = mine->has_value, .value = mine->value};
  const bool named = mine->name[0] != 0;
  snprintf(record.text, sizeof record.text, named ? "%s(\"%s\")" : "%s(%s)", mine->call,
           mine->name);
  SHOAL_RETURN_IF_ERROR(gather(runner, table, sizeof record, &record, table->calls));
  difference_t difference;
  int64_t index, count;
  for (int32_t r = 0; r < table->size; ++r) {
    const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, table->calls[r].text);
    table->entries[r] = (entry_t){1, shoal_hash_int(hash, table->calls[r].run), r};
  }
  if (find_difference(table->entries, table->size, runner->rank, &index, &count, &difference)) {
    const call_record_t *odd = &table->calls[difference.first];
    const call_record_t *reference = &table->calls[difference.reference];
    char runs[80] = "";
    if (odd->run != reference->run) {
      snprintf(runs, sizeof runs, ", after %lld and %lld runs", (long long)odd->run,
               (long long)reference->run);
    }
    return SHOAL_ERROR_HINT(
        MISMATCH, "make the same calls in the same order on every rank",
        "the ranks make different calls at the same time: rank %d calls %s, rank %d %s%s",
        difference.first, odd->text, difference.reference, reference->text, runs);
  }
  for (int32_t r = 0; r < table->size; ++r) {
    table->entries[r] = (entry_t){table->calls[r].has_value, table->calls[r].value, r};
  }
  if (!find_difference(table->entries, table->size, runner->rank, &index, &count, &difference)) {
    return NULL;
  }
  return SHOAL_ERROR_HINT(
      MISMATCH, "set the same value on every rank (the option no_compare leaves this unchecked)",
      "the ranks set different values: that of state '%s' on %s differs from rank %d's", mine->name,
      difference.ranks, difference.reference);
}

static shoal_status_t fed_differently(const shoal_run_input_t *input,
                                      const difference_t *difference) {
  const bool whole = difference->key == SHOAL_RUN_WHOLE;
  const char *hint =
      whole ? "feed the same whole batch on every rank, or each rank's own rows with "
              "shoal_feed_part (the option no_compare leaves this unchecked)"
            : "ranks that hold the same rows must be fed the same data (the option no_compare "
              "leaves this unchecked)";
  return SHOAL_ERROR_HINT(
      MISMATCH, hint,
      "the ranks were fed different %s: input '%s' of graph '%s' on %s differs from rank %d's",
      whole ? "batches" : "data for the same part", input->port->name, input->port->graph,
      difference->ranks, difference->reference);
}

// All ranks know now who was fed what: new weights, and the first input that differs.
static shoal_status_t compare_inputs(shoal_runner_t *runner, table_t *table, const char *graph) {
  for (int64_t i = 0; i < runner->program->input_count; ++i) {
    const shoal_run_input_t *input = &runner->inputs[i];
    if (!is_input_of(input, graph)) continue;
    table->mine[table->input_count++] = (input_record_t){input->key, input->hash};
  }
  const int64_t inputs = table->input_count;
  if (inputs == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(
      gather(runner, table, inputs * (int64_t)sizeof *table->mine, table->mine, table->inputs));
  shoal_status_t status = NULL;
  for (int64_t i = 0, k = -1; i < runner->program->input_count; ++i) {
    shoal_run_input_t *input = &runner->inputs[i];
    if (!is_input_of(input, graph)) continue;
    ++k;
    for (int32_t r = 0; r < table->size; ++r) {
      const input_record_t *record = &table->inputs[r * inputs + k];
      table->entries[r] = (entry_t){record->key, record->hash, r};
    }
    difference_t difference;
    int64_t index, count;
    const bool found =
        find_difference(table->entries, table->size, runner->rank, &index, &count, &difference);
    input->known_key = input->key;
    input->weight = count > 0 ? weight_of(input->key + (uint64_t)i, index, count) : 0;
    if (found && !status) status = fed_differently(input, &difference);
  }
  return status;
}

// The same result on all ranks, because they look at the same table.
static shoal_status_t tell_each_other(shoal_runner_t *runner, const shoal_run_meeting_t *mine) {
  shoal_arena_t arena;
  table_t table = {0};
  shoal_arena_init(runner->allocator, &arena);
  shoal_status_t status = shoal_world_agree(runner->world, make_table(runner, &arena, &table));
  if (!status) status = compare_calls(runner, &table, mine);
  if (!status) status = compare_inputs(runner, &table, mine->graph);
  shoal_arena_deinit(&arena);
  return status;
}

// ---- meeting --------------------------------------------------------------------------

enum { FAILED, CHANGED, SUM, WORDS };

static void fill_words(const shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                       uint64_t words[WORDS]) {
  uint64_t hash = shoal_hash_string(shoal_hash_string(SHOAL_HASH_START, mine->call), mine->name);
  hash = shoal_hash_int(shoal_hash_int(hash, runner->run_count), mine->has_value);
  hash = shoal_hash_int(hash, (int64_t)mine->value);
  words[SUM] = hash * weight_of(0, runner->rank, shoal_world_size(runner->world));
  for (int64_t i = 0; i < runner->program->input_count; ++i) {
    const shoal_run_input_t *input = &runner->inputs[i];
    if (!is_input_of(input, mine->graph)) continue;
    if (input->key != input->known_key) words[CHANGED] = 1;
    words[SUM] += input->hash * input->weight;
  }
}

shoal_status_t shoal_run_meet(shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                              shoal_status_t status) {
  if (!runner->everyone) return shoal_runner_agree(runner, status);
  uint64_t words[WORDS] = {[FAILED] = status != NULL};
  fill_words(runner, mine, words);
  shoal_comm_label(mine->call);
  shoal_status_t broken =
      shoal_all_reduce(runner->everyone, SHOAL_I64, SHOAL_REDUCE_SUM, WORDS, words, words);
  shoal_comm_label(NULL);
  if (broken && !status) return broken;
  if (broken || words[FAILED] > 0) {
    shoal_status_free(broken);
    return shoal_runner_agree(runner, status);  // says whose it was, or that this rank failed too
  }
  return words[CHANGED] == 0 && words[SUM] == 0 ? NULL : tell_each_other(runner, mine);
}

shoal_status_t shoal_runner_meet(shoal_runner_t *runner, const char *call, const char *name,
                                 shoal_status_t status) {
  return shoal_run_meet(runner, &(shoal_run_meeting_t){.call = call, .name = name ? name : ""},
                        status);
}
