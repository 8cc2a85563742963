// Meeting: how a collective call begins. Is all well on every rank, did they all make this call,
// and was what several of them hold given to them alike - the whole batch they feed, a part that
// several ranks hold, the value a state is set to?
//
// This is one all-reduce of a few words, as an agreement without comparing would be. Each rank
// brings its hashes times weights, and the weights of ranks that must have the same hash add up to
// zero: so does the sum, if they have. (Else it misses a difference once in about 2^60.) The
// weights depend on who was fed what; they are worked out when that changes, from what all ranks
// then tell each other (tell.c). When the sum is not zero they tell each other too, and find out
// who differs in what. So the fast way never raises an error, and never misses that something
// changed.
//
// A steady run does not meet. Instead, every few runs, the same words are added up beside the runs,
// about all that was fed since the last time: started behind one run, looked at before another one,
// the same on all ranks. How many runs lie between follows from how long they take, which is one of
// the words. A difference that is found then sticks, because runs have used the data. A rank that
// meets while others agree finds them in the same all-reduce, and so they hear of it. One that
// waits longer looks how far the others have run: whoever is ahead made another call instead.
//
// Not compared: elements that ranks hold as parts of different parts, as in halos; and a whole that
// one rank was fed with the parts that others were.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/time.h"
#include "comm/progress.h"
#include "run/run_impl.h"

enum {
  MOST_RUNS = 16,
  OFTEN_NS = 1000000000,  // between agreements: runs, or time if that is less
  LOOK_NS = 250000000     // between looks for ranks that do something else
};

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

// What it adds, the next one takes away.
uint64_t shoal_run_weight(uint64_t key, int64_t index, int64_t count) {
  const uint64_t seed = mix(key + SHOAL_HASH_START);
  return mix(seed + (uint64_t)index) - mix(seed + (uint64_t)((index + 1) % count));
}

// ---- meeting --------------------------------------------------------------------------

enum { FAILED, CHANGED, STOP, TIME, MEETS, SAVE, SUM, WORDS };
_Static_assert((int)WORDS == (int)SHOAL_RUN_WORDS, "words of an agreement");

static shoal_collective_t sum_of(uint64_t words[WORDS]) {
  return (shoal_collective_t){.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                              .dtype = SHOAL_I64,
                              .reduce = SHOAL_REDUCE_SUM,
                              .count = WORDS,
                              .send = words,
                              .recv = words};
}

static uint64_t weighted_call(const shoal_runner_t *runner, const shoal_run_meeting_t *mine) {
  uint64_t hash = shoal_hash_string(shoal_hash_string(SHOAL_HASH_START, mine->call), mine->name);
  hash = shoal_hash_int(shoal_hash_int(hash, runner->run_count), mine->steady);
  hash = shoal_hash_int(shoal_hash_int(hash, mine->has_value), (int64_t)mine->value);
  return hash * shoal_run_weight(0, runner->rank, shoal_world_size(runner->world));
}

static void fill_words(const shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                       uint64_t words[WORDS]) {
  words[STOP] = runner->wants_stop;
  words[SAVE] = shoal_run_save_failed(runner);
  words[SUM] = weighted_call(runner, mine);
  for (int64_t i = 0; mine->order && i < mine->order->inputs.count; ++i) {
    const shoal_run_input_t *input = mine->order->inputs.items[i];
    if (input->key != input->known_key) words[CHANGED] = 1;
    words[SUM] += input->hash * input->weight;
  }
}

// Breaks the world: another rank has run on while this one is in the call, and will never come.
static void break_with(const shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                       int32_t other) {
  char ahead[32] = "others";
  if (other >= 0) snprintf(ahead, sizeof ahead, "rank %d", other);
  const char *quote = mine->name[0] ? "\"" : "";
  char message[400];
  snprintf(message, sizeof message,
           "the ranks make different calls at the same time: after %lld runs rank %d calls "
           "%s(%s%s%s), %s shoal_run: make the same calls in the same order on every rank",
           (long long)runner->run_count, runner->rank, mine->call, quote, mine->name, quote, ahead);
  shoal_progress_break(runner->everyone, message);
}

// Since the last meeting: who is through this one may be ahead, too, while this rank has not heard.
static int32_t find_ahead(const shoal_runner_t *runner) {
  return shoal_progress_ahead(runner->everyone, (uint64_t)runner->counters.meetings - 1,
                              (uint64_t)runner->run_count);
}

// Steady runs wait for nobody, so a rank that makes another call instead would wait in vain.
static shoal_status_t add_up(const shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                             uint64_t words[WORDS]) {
  const shoal_collective_t sum = sum_of(words);
  shoal_request_t request;
  shoal_comm_label(mine->call);
  shoal_status_t status = shoal_collective_start(runner->everyone, &sum, &request);
  shoal_comm_label(NULL);
  if (status) return status;
  while (!shoal_request_wait_until(&request, shoal_time_ns() + LOOK_NS)) {
    const int32_t other = find_ahead(runner);
    if (other >= 0) break_with(runner, mine, other);
  }
  return shoal_request_wait(&request);
}

static shoal_status_t meet(shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                           shoal_status_t status) {
  uint64_t words[WORDS] = {[FAILED] = status != NULL, [MEETS] = 1};
  fill_words(runner, mine, words);
  ++runner->counters.meetings;
  shoal_status_t broken = add_up(runner, mine, words);
  if (!broken && words[MEETS] < (uint64_t)shoal_world_size(runner->world)) {
    // Others agree beside their runs: those are runs that this rank has not made.
    break_with(runner, mine, find_ahead(runner));
    broken = shoal_world_agree(runner->world, NULL);
  }
  if (broken) {
    shoal_run_break(runner, broken);
    // Says that this rank failed too.
    return status ? shoal_world_agree(runner->world, status) : shoal_run_broken(runner);
  }
  if (words[FAILED] > 0) return shoal_runner_agree(runner, status);  // says whose it was
  if (words[STOP] > 0) runner->stop = true;
  if (words[SAVE] > 0) return shoal_run_save_wait(runner);
  if (words[CHANGED] == 0 && words[SUM] == 0) return NULL;
  bool hangs;
  status = shoal_run_tell(runner, mine, &hangs);
  if (status && hangs) shoal_run_break_alike(runner, shoal_status_clone(status), true);
  return status;
}

shoal_status_t shoal_run_meet(shoal_runner_t *runner, const shoal_run_meeting_t *mine,
                              shoal_status_t status) {
  shoal_run_join(runner);
  shoal_status_t broken = shoal_run_broken(runner);
  if (broken) {
    shoal_status_free(status);
    return broken;
  }
  if (runner->everyone) return meet(runner, mine, status);
  runner->stop |= runner->wants_stop;
  if (!status && shoal_run_save_failed(runner)) return shoal_run_save_wait(runner);
  return shoal_runner_agree(runner, status);
}

shoal_status_t shoal_runner_meet(shoal_runner_t *runner, const char *call, const char *name,
                                 shoal_status_t status) {
  return shoal_run_meet(runner, &(shoal_run_meeting_t){.call = call, .name = name ? name : ""},
                        status);
}

shoal_status_t shoal_runner_wait(shoal_runner_t *runner) {
  SHOAL_RETURN_IF_ERROR(shoal_runner_meet(runner, "shoal_session_wait", NULL, NULL));
  return shoal_run_save_wait(runner);
}

// ---- agreeing beside the runs ---------------------------------------------------------

static shoal_run_meeting_t steady_meeting(const shoal_runner_t *runner) {
  return (shoal_run_meeting_t){
      .call = "shoal_run", .name = runner->steady->graph, .order = runner->steady, .steady = true};
}

// What this run uses joins what the others since the last agreement did, in their order.
static void note_inputs(const shoal_run_order_t *order) {
  for (int64_t i = 0; i < order->inputs.count; ++i) {
    shoal_run_input_t *input = order->inputs.items[i];
    shoal_run_fed_t *window = &input->window;
    const bool first = window->hash == 0;
    const uint64_t hash = input->key ? input->hash : 0;
    if (!first && window->last != input->key) input->mixed = true;
    window->last = input->key;
    window->key = shoal_hash_int(first ? SHOAL_HASH_START : window->key, (int64_t)input->key);
    window->hash = shoal_hash_int(first ? SHOAL_HASH_START : window->hash, (int64_t)hash);
  }
}

static void clear_inputs(const shoal_run_order_t *order) {
  for (int64_t i = 0; i < order->inputs.count; ++i) {
    order->inputs.items[i]->window = (shoal_run_fed_t){0};
    order->inputs.items[i]->mixed = false;
  }
}

// Moves the windows into the agreement that is about to start.
static void ask_about_inputs(const shoal_run_order_t *order, uint64_t words[WORDS]) {
  for (int64_t i = 0; i < order->inputs.count; ++i) {
    shoal_run_input_t *input = order->inputs.items[i];
    input->asked = input->window;
    if (input->mixed || input->asked.last != input->known_key) words[CHANGED] = 1;
    // Fed nothing, all the time: there is nothing to compare.
    if (!input->mixed && input->asked.last == 0) input->asked.key = 0;
    words[SUM] += input->asked.hash * input->weight;
  }
  clear_inputs(order);
}

static shoal_status_t start(shoal_runner_t *runner) {
  shoal_run_agreement_t *agreement = &runner->agreement;
  const shoal_run_meeting_t mine = steady_meeting(runner);
  const int64_t now = shoal_time_ns();
  memset(agreement->words, 0, sizeof agreement->words);
  agreement->words[STOP] = runner->wants_stop;
  agreement->words[SAVE] = shoal_run_save_failed(runner);
  agreement->words[TIME] = (uint64_t)((now - agreement->since_ns) / agreement->since);
  agreement->words[SUM] = weighted_call(runner, &mine);
  ask_about_inputs(runner->steady, agreement->words);
  agreement->last = runner->steady->run_count;
  agreement->first = agreement->last - agreement->since + 1;
  agreement->since = 0;
  agreement->since_ns = now;
  const shoal_collective_t sum = sum_of(agreement->words);
  ++runner->counters.agreements;
  shoal_comm_label(mine.call);
  shoal_status_t status = shoal_collective_start(runner->everyone, &sum, &agreement->request);
  shoal_comm_label(NULL);
  agreement->pending = !status;
  return status;
}

// The same on all ranks. Few at first: a difference shows soon, and the first runs take long.
static int64_t next_interval(const shoal_runner_t *runner) {
  const shoal_run_agreement_t *agreement = &runner->agreement;
  const int64_t mean = (int64_t)agreement->words[TIME] / shoal_world_size(runner->world);
  int64_t runs = mean > 0 ? OFTEN_NS / mean : MOST_RUNS;
  if (runs > 2 * agreement->interval) runs = 2 * agreement->interval;
  if (runs > MOST_RUNS) runs = MOST_RUNS;
  return runs > 1 ? runs : 1;
}

void shoal_run_agree_collect(shoal_runner_t *runner) {
  shoal_run_agreement_t *agreement = &runner->agreement;
  if (!agreement->pending) return;
  agreement->pending = false;
  shoal_status_t status = shoal_request_wait(&agreement->request);
  if (status) {
    shoal_run_break(runner, status);
    return;
  }
  if (agreement->words[FAILED] > 0) {  // another rank met, and failed
    shoal_run_break(runner, shoal_runner_agree(runner, NULL));
    return;
  }
  if (agreement->words[STOP] > 0) runner->stop = true;
  agreement->save_failed = agreement->words[SAVE] > 0;
  agreement->interval = next_interval(runner);
  if (agreement->words[CHANGED] == 0 && agreement->words[SUM] == 0) return;
  bool hangs;
  const shoal_run_meeting_t mine = steady_meeting(runner);
  status = shoal_run_tell(runner, &mine, &hangs);
  shoal_run_break_alike(runner, status, hangs);
}

void shoal_run_agree_reset(shoal_runner_t *runner) {
  runner->agreement.interval = 1;
  runner->agreement.since = 0;
  runner->agreement.save_failed = false;
  runner->agreement.since_ns = shoal_time_ns();
  clear_inputs(runner->steady);
}

shoal_status_t shoal_run_agree_before(shoal_runner_t *runner) {
  if (!runner->everyone) {
    runner->stop |= runner->wants_stop;
    return shoal_run_save_failed(runner) ? shoal_run_save_wait(runner) : NULL;
  }
  if (runner->agreement.since + 1 < runner->agreement.interval) return NULL;
  shoal_run_agree_collect(runner);
  SHOAL_RETURN_IF_ERROR(shoal_run_broken(runner));
  if (!runner->agreement.save_failed) return NULL;
  runner->agreement.save_failed = false;  // the same run on all ranks, and nothing of it has begun
  return shoal_run_save_wait(runner);
}

shoal_status_t shoal_run_agree_after(shoal_runner_t *runner) {
  if (!runner->everyone) return NULL;
  note_inputs(runner->steady);
  ++runner->agreement.since;
  return runner->agreement.since < runner->agreement.interval ? NULL : start(runner);
}

void shoal_runner_ask_stop(shoal_runner_t *runner) {
  runner->wants_stop = true;
}

bool shoal_runner_should_stop(const shoal_runner_t *runner) {
  return runner->stop;
}
