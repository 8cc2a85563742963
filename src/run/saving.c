// Writing a checkpoint on all ranks at once. Each takes its own elements of every state (owned.h)
// and writes them where they lie in the files; nobody holds more of a state than its part.
//
// The ranks write in rounds of some size and meet behind each. So a rank that fails stops all, and
// those that are done wait for slow disks however long they take: the world's time limit is about
// ranks that are stuck. Then the sums of what they wrote are joined, and rank 0 writes headers and
// publishes.
//
// Beside the runs: what the states hold is copied first, and a thread does the rest, in a group of
// its own.
#include "run/saving.h"

#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "op/type.h"
#include "run/checkpoint.h"

enum { ROUND = 64 << 20 };  // bytes, where the runner's options do not say

// ---- taking ---------------------------------------------------------------------------

int64_t shoal_saving_bytes(const shoal_saving_t *saving, int64_t i) {
  const shoal_owned_t *owned = &saving->owned[i];
  return (owned->to - owned->from) * (int64_t)shoal_dtype_size(saving->tensors[i].type.dtype);
}

typedef struct pack {
  const char *part;
  char *out;
  shoal_dtype_t from, to;
} pack_t;

static shoal_status_t pack_run(void *self, int64_t whole, int64_t part, int64_t count) {
  pack_t *pack = self;
  (void)whole;
  const size_t from = shoal_dtype_size(pack->from), to = shoal_dtype_size(pack->to);
  if (pack->from == pack->to)
    memcpy(pack->out, pack->part + (size_t)part * from, (size_t)count * to);
  for (int64_t e = 0; e < count && pack->from != pack->to; ++e)
    shoal_dtype_store(pack->to, pack->out, e, shoal_dtype_load(pack->from, pack->part, part + e));
  pack->out += (size_t)count * to;
  return NULL;
}

// *Collective* where the state moves.
static shoal_status_t take(shoal_saving_t *saving, int64_t i, char *out) {
  const shoal_owned_t *owned = &saving->owned[i];
  const int64_t state = saving->states[i];
  pack_t pack = {.part = saving->part,
                 .out = out,
                 .from = saving->runner->program->states[state].type.dtype,
                 .to = saving->tensors[i].type.dtype};
  shoal_arena_t scratch;
  shoal_arena_init(saving->runner->allocator, &scratch);
  shoal_status_t status = shoal_owned_read(saving->runner, state, owned, &scratch, saving->part);
  shoal_arena_deinit(&scratch);
  if (status) return status;
  return shoal_owned_walk(owned->piece_count, owned->pieces, owned->from, owned->to, pack_run,
                          &pack);
}

// Those that move, which takes all ranks, and with `all` the others too.
static shoal_status_t take_states(shoal_saving_t *saving, bool all) {
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < saving->count; ++i) {
    const bool moves = saving->owned[i].moves;
    if (!moves && (!all || status)) continue;
    char *out = shoal_arena_alloc(&saving->arena, (size_t)shoal_saving_bytes(saving, i), 1);
    if (!out && !status) status = SHOAL_OOM();
    if (moves) SHOAL_RETURN_IF_ERROR(shoal_runner_agree(saving->runner, status));
    if (!status) status = take(saving, i, out);
    saving->packed[i] = out;
  }
  return shoal_runner_agree(saving->runner, status);
}

// ---- writing --------------------------------------------------------------------------

typedef struct put {
  shoal_saving_t *saving;
  int64_t tensor, element;
  const char *data;
} put_t;

static shoal_status_t put_run(void *self, int64_t whole, int64_t part, int64_t count) {
  put_t *put = self;
  (void)part;
  const char *data = put->data;
  put->data += count * put->element;
  return shoal_shard_writer_put(&put->saving->writer, put->tensor, whole * put->element, data,
                                count * put->element);
}

// The next elements, of so many bytes or a few more.
static shoal_status_t write_some(shoal_saving_t *saving, int64_t bytes) {
  while (saving->at < saving->count && bytes > 0) {
    const int64_t i = saving->at;
    const shoal_owned_t *owned = &saving->owned[i];
    const int64_t element = (int64_t)shoal_dtype_size(saving->tensors[i].type.dtype);
    const int64_t left = owned->to - owned->from - saving->done;
    const int64_t count = left < bytes / element + 1 ? left : bytes / element + 1;
    const int64_t from = owned->from + saving->done;
    if (count > 0 && !saving->packed[i] && saving->done == 0)
      SHOAL_RETURN_IF_ERROR(take(saving, i, saving->own));
    const char *packed = saving->packed[i] ? saving->packed[i] : saving->own;
    put_t put = {saving, i, element, packed + saving->done * element};
    SHOAL_RETURN_IF_ERROR(
        shoal_owned_walk(owned->piece_count, owned->pieces, from, from + count, put_run, &put));
    saving->done += count;
    bytes -= count * element;
    if (count < left) continue;
    saving->done = 0;
    ++saving->at;
  }
  return shoal_shard_writer_flush(&saving->writer);
}

// ---- together -------------------------------------------------------------------------

// Sums over the ranks; a world of one has no group.
static shoal_status_t add_up(shoal_group_t *group, int64_t count, int64_t *words) {
  if (!group) return NULL;
  return shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, count, words, words);
}

// In halves: whole sums of more than eight ranks would not fit.
shoal_status_t shoal_run_sums_join(shoal_group_t *group, int64_t count, uint64_t *sums,
                                   int64_t *words) {
  if (!group) return NULL;
  for (int64_t i = 0; i < count; ++i) {
    words[2 * i] = (int64_t)(sums[i] >> 31);
    words[2 * i + 1] = (int64_t)(sums[i] & 0x7fffffff);
  }
  SHOAL_RETURN_IF_ERROR(add_up(group, 2 * count, words));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t high = shoal_parts_sum_scale((uint64_t)words[2 * i], 31);
    sums[i] = shoal_parts_sum_join(high, (uint64_t)words[2 * i + 1]);
  }
  return NULL;
}

// Until all have written all they have, or one has failed. An error is the communication's.
static shoal_status_t write_rounds(shoal_saving_t *saving, shoal_group_t *group,
                                   shoal_status_t *out_status, bool *out_failed) {
  enum { FAILED, BUSY, WORDS };
  const int64_t round = saving->runner->options.save_round;
  for (;;) {
    if (!*out_status) *out_status = write_some(saving, round > 0 ? round : ROUND);
    int64_t words[WORDS] = {[FAILED] = *out_status != NULL, [BUSY] = saving->at < saving->count};
    SHOAL_RETURN_IF_ERROR(add_up(group, WORDS, words));
    *out_failed = words[FAILED] > 0;
    if (*out_failed || words[BUSY] == 0) return NULL;
  }
}

static shoal_status_t join_sums(shoal_saving_t *saving, shoal_group_t *group) {
  return shoal_run_sums_join(group, saving->count, saving->writer.sums, saving->words);
}

// Writes and publishes. *out_status is this rank's; what is returned, the communication's.
static shoal_status_t write_all(shoal_saving_t *saving, shoal_group_t *group,
                                shoal_status_t *out_status, bool *out_failed) {
  SHOAL_RETURN_IF_ERROR(write_rounds(saving, group, out_status, out_failed));
  if (*out_failed) return NULL;
  SHOAL_RETURN_IF_ERROR(join_sums(saving, group));
  if (saving->leads) *out_status = shoal_shard_writer_finish(&saving->writer);
  int64_t word = *out_status != NULL;
  SHOAL_RETURN_IF_ERROR(add_up(group, 1, &word));
  *out_failed = word > 0;
  return NULL;
}

// ---- now ------------------------------------------------------------------------------

static shoal_status_t annotate(const shoal_saving_t *saving, shoal_status_t status) {
  return status ? shoal_status_annotatef(status, "while saving '%s'", saving->path) : NULL;
}

shoal_status_t shoal_saving_run(shoal_saving_t *saving) {
  shoal_runner_t *runner = saving->runner;
  SHOAL_RETURN_IF_ERROR(take_states(saving, false));
  shoal_status_t status = NULL;
  bool failed;
  shoal_status_t broken = write_all(saving, runner->everyone, &status, &failed);
  if (!broken) return shoal_runner_agree(runner, status);
  shoal_status_free(status);
  return shoal_run_finish(runner, broken);
}

// ---- beside the runs ------------------------------------------------------------------

static void write_beside(void *self) {
  shoal_saving_t *saving = self;
  bool failed = true;
  shoal_comm_label("shoal_save");
  shoal_status_t broken = write_all(saving, saving->group, &saving->status, &failed);
  shoal_comm_label(NULL);
  if (broken && saving->status)
    shoal_status_free(broken);
  else if (broken)
    saving->status = broken;
  if (broken || failed) shoal_shard_writer_abandon(&saving->writer);
  atomic_store(&saving->failed, broken || failed);
}

static shoal_status_t make_group(shoal_saving_t *saving) {
  shoal_runner_t *runner = saving->runner;
  if (runner->everyone && !runner->save_group)
    SHOAL_RETURN_IF_ERROR(shoal_group_create(runner->world, shoal_world_size(runner->world), NULL,
                                             &runner->save_group));
  saving->group = runner->save_group;
  return NULL;
}

shoal_status_t shoal_saving_start(shoal_saving_t *saving) {
  shoal_runner_t *runner = saving->runner;
  SHOAL_RETURN_IF_ERROR(shoal_runner_agree(runner, make_group(saving)));
  SHOAL_RETURN_IF_ERROR(take_states(saving, true));
  shoal_status_t status = shoal_thread_start(write_beside, saving, &saving->thread);
  if (status) {  // then this rank writes now; the others wait for it in their rounds
    shoal_status_free(status);
    write_beside(saving);
  }
  runner->saving = saving;
  return NULL;
}

void shoal_saving_free(shoal_saving_t *saving) {
  if (!saving) return;
  shoal_thread_join(&saving->thread);
  shoal_status_free(saving->status);
  const shoal_allocator_t allocator = saving->runner->allocator;
  shoal_arena_deinit(&saving->arena);
  allocator.free(allocator.self, saving);
}

bool shoal_run_save_failed(const shoal_runner_t *runner) {
  return runner->saving && atomic_load(&runner->saving->failed);
}

shoal_status_t shoal_run_save_wait(shoal_runner_t *runner) {
  shoal_saving_t *saving = runner->saving;
  if (!saving) return NULL;
  runner->saving = NULL;
  shoal_thread_join(&saving->thread);
  shoal_status_t status = annotate(saving, saving->status);
  saving->status = NULL;
  shoal_saving_free(saving);
  return shoal_runner_agree(runner, status);
}

// The largest part, from which own elements are taken, and these.
shoal_status_t shoal_run_saving_measure(shoal_runner_t *runner) {
  int64_t own = 0, most = 0;
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < runner->program->state_count && !status; ++i) {
    const shoal_program_state_t *state = &runner->program->states[i];
    if (!state->saved) continue;
    shoal_arena_t scratch;
    shoal_arena_init(runner->allocator, &scratch);
    shoal_owned_t owned;
    status = shoal_owned_find(runner, i, &scratch, &owned);
    shoal_arena_deinit(&scratch);
    const int64_t element = (int64_t)shoal_dtype_size(state->type.dtype);
    own += (owned.to - owned.from) * element;
    if (owned.part_count * element > most) most = owned.part_count * element;
  }
  runner->saving_bytes = own + most;
  return status;
}

int64_t shoal_runner_saving_bytes(const shoal_runner_t *runner) {
  return runner->saving_bytes;
}
