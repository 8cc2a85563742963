// Telling each other: when the sums of meet.c do not add up, every rank tells all what it does and
// what it was fed. They then look at the same table, so that all find the same difference, if there
// is one: a sum may also be other than zero because ranks were fed in another way than the weights
// were made for. New weights follow from the table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "run/run_impl.h"

// ---- who differs ----------------------------------------------------------------------

// What a rank has under a key; key 0: nothing.
typedef struct entry {
  uint64_t key, value;
  int32_t rank;
} entry_t;

typedef struct difference {
  int32_t reference;  // the rank that the others are compared with
  int32_t first;      // the lowest of them that differs
  char ranks[112];    // "rank 1" or "ranks 1, 3, 4 and 12 more"
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
  uint64_t steady, has_value, value;
} call_record_t;

// Room for what is told; the same on all ranks.
typedef struct table {
  int32_t size;
  int64_t *counts;
  call_record_t *calls;
  shoal_run_fed_t *mine, *inputs;  // [input]; [rank][input]
  entry_t *entries;
} table_t;

static shoal_status_t make_table(const shoal_runner_t *runner, shoal_arena_t *arena,
                                 table_t *table) {
  table->size = shoal_world_size(runner->world);
  const int64_t most = runner->program->input_count;
  table->counts = SHOAL_NEW(arena, int64_t, table->size);
  table->calls = SHOAL_NEW(arena, call_record_t, table->size);
  table->entries = SHOAL_NEW(arena, entry_t, table->size);
  table->mine = SHOAL_NEW(arena, shoal_run_fed_t, most);
  table->inputs = SHOAL_NEW(arena, shoal_run_fed_t, table->size * most);
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

static shoal_status_t called_differently(const table_t *table, const difference_t *difference) {
  const call_record_t *odd = &table->calls[difference->first];
  const call_record_t *reference = &table->calls[difference->reference];
  char runs[80] = "";
  if (odd->run != reference->run) {
    snprintf(runs, sizeof runs, ", after %lld and %lld runs", (long long)odd->run,
             (long long)reference->run);
  }
  return SHOAL_ERROR_HINT(
      MISMATCH, "make the same calls in the same order on every rank",
      "the ranks make different calls at the same time: rank %d calls %s, rank %d %s%s",
      difference->first, odd->text, difference->reference, reference->text, runs);
}

static shoal_status_t compare_calls(const shoal_runner_t *runner, table_t *table,
                                    const shoal_run_meeting_t *mine, bool *out_hangs) {
  call_record_t record = {.run = runner->run_count,
                          .steady = mine->steady,
                          .has_value = mine->has_value,
                          .value = mine->value};
  const bool named = mine->name[0] != 0;
  snprintf(record.text, sizeof record.text, named ? "%s(\"%s\")" : "%s(%s)", mine->call,
           mine->name);
  SHOAL_RETURN_IF_ERROR(gather(runner, table, sizeof record, &record, table->calls));
  difference_t difference;
  int64_t index, count;
  bool steady = false;
  for (int32_t r = 0; r < table->size; ++r) {
    const call_record_t *call = &table->calls[r];
    uint64_t hash = shoal_hash_string(SHOAL_HASH_START, call->text);
    hash = shoal_hash_int(shoal_hash_int(hash, call->run), (int64_t)call->steady);
    table->entries[r] = (entry_t){1, hash, r};
    steady |= call->steady != 0;
  }
  if (find_difference(table->entries, table->size, runner->rank, &index, &count, &difference)) {
    *out_hangs = steady;
    return called_differently(table, &difference);
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

static shoal_status_t fed_differently(const shoal_runner_t *runner, const shoal_run_input_t *input,
                                      bool steady, bool whole, const difference_t *difference) {
  const char *hint =
      whole ? "feed the same whole batch on every rank, or each rank's own rows with "
              "shoal_feed_part (the option no_compare leaves this unchecked)"
            : "ranks that hold the same rows must be fed the same data (the option no_compare "
              "leaves this unchecked)";
  const long long first = runner->agreement.first, last = runner->agreement.last;
  char when[80] = "";
  if (steady && first == last) snprintf(when, sizeof when, " in run %lld of the graph", last);
  if (steady && first < last) {
    snprintf(when, sizeof when, " in one of the graph's runs %lld to %lld", first, last);
  }
  return SHOAL_ERROR_HINT(
      MISMATCH, hint,
      "the ranks were fed different %s: input '%s' of graph '%s' on %s differs from rank %d's%s",
      whole ? "batches" : "data for the same part", input->port->name, input->port->graph,
      difference->ranks, difference->reference, when);
}

// All ranks know now who was fed what: new weights, and the first input that differs.
static shoal_status_t compare_inputs(shoal_runner_t *runner, table_t *table,
                                     const shoal_run_meeting_t *meeting) {
  const shoal_run_order_t *order = meeting->order;
  const int64_t inputs = order ? order->inputs.count : 0;
  if (inputs == 0) return NULL;
  for (int64_t i = 0; i < inputs; ++i) {
    const shoal_run_input_t *input = order->inputs.items[i];
    const shoal_run_fed_t now = {input->key, input->hash, input->key};
    table->mine[i] = meeting->steady ? input->asked : now;
  }
  SHOAL_RETURN_IF_ERROR(
      gather(runner, table, inputs * (int64_t)sizeof *table->mine, table->mine, table->inputs));
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < inputs; ++i) {
    shoal_run_input_t *input = order->inputs.items[i];
    difference_t difference;
    int64_t index, count;
    for (int32_t r = 0; r < table->size; ++r) {
      const shoal_run_fed_t *fed = &table->inputs[r * inputs + i];
      table->entries[r] = (entry_t){fed->key, fed->hash, r};
    }
    if (find_difference(table->entries, table->size, runner->rank, &index, &count, &difference) &&
        !status) {
      const bool whole = table->inputs[difference.reference * inputs + i].last == SHOAL_RUN_WHOLE;
      status = fed_differently(runner, input, meeting->steady, whole, &difference);
    }
    for (int32_t r = 0; r < table->size; ++r) {
      table->entries[r] = (entry_t){table->inputs[r * inputs + i].last, 0, r};
    }
    find_difference(table->entries, table->size, runner->rank, &index, &count, &difference);
    input->known_key = table->mine[i].last;
    input->weight = count > 0 ? shoal_run_weight(input->known_key + (uint64_t)i, index, count) : 0;
  }
  return status;
}

shoal_status_t shoal_run_tell(shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                              bool *out_hangs) {
  shoal_arena_t arena;
  table_t table = {0};
  *out_hangs = false;
  shoal_arena_init(runner->allocator, &arena);
  shoal_status_t status = shoal_world_agree(runner->world, make_table(runner, &arena, &table));
  if (!status) status = compare_calls(runner, &table, mine, out_hangs);
  if (!status) status = compare_inputs(runner, &table, mine);
  shoal_arena_deinit(&arena);
  return status;
}
