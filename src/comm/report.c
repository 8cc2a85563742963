// Accounts of all ranks, put into words: who waits in what for whom, who is waited for and waits
// for nobody, and whether they wait for each other in a circle.
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"
#include "comm/comm_impl.h"

// Text that stops growing when its room is used up.
typedef struct text {
  char *buffer;
  size_t capacity, length;
} text_t;

__attribute__((format(printf, 2, 3))) static void add(text_t *text, const char *format, ...) {
  if (text->length + 1 >= text->capacity) return;
  va_list arguments;
  va_start(arguments, format);
  const int length =
      vsnprintf(text->buffer + text->length, text->capacity - text->length, format, arguments);
  va_end(arguments);
  text->length += length > 0 ? (size_t)length : 0;
  if (text->length >= text->capacity) text->length = text->capacity - 1;
}

// "operation 12, all_reduce of f32 by sum, 4096 bytes, call 3 of ranks 0,1,2".
static void add_record(text_t *text, const shoal_record_t *record) {
  static const char *const names[] = {[SHOAL_RECORD_EXCHANGE] = "exchange",
                                      [SHOAL_RECORD_LANE_EXCHANGE] = "exchange",
                                      [SHOAL_RECORD_PUT_ADD] = "window put_add",
                                      [SHOAL_RECORD_GET] = "window get",
                                      [SHOAL_RECORD_WAIT] = "window wait"};
  const bool is_exchange =
      record->kind == SHOAL_RECORD_EXCHANGE || record->kind == SHOAL_RECORD_LANE_EXCHANGE;
  add(text, "operation %llu, ", (unsigned long long)record->number);
  if (record->label[0]) add(text, "'%s', ", record->label);
  if (record->kind == SHOAL_RECORD_COLLECTIVE) {
    char what[80];
    shoal_collective_describe(record->tag, what, sizeof what);
    add(text, "%s", what);
  } else {
    add(text, "%s",
        (unsigned)record->kind < sizeof names / sizeof *names ? names[record->kind] : "?");
    if (is_exchange && record->peer >= 0) {
      add(text, " with rank %d, tag %d", record->peer, record->tag);
    } else if (record->peer >= 0) {
      add(text, " of group rank %d's shard", record->peer);
    }
  }
  if (record->bytes > 0) add(text, ", %lld bytes", (long long)record->bytes);
  if (record->group[0]) {
    const bool counted = !is_exchange;  // calls are collectives
    if (record->call > 0 && counted) add(text, ", call %llu", (unsigned long long)record->call);
    const bool on_lane = record->kind == SHOAL_RECORD_LANE_EXCHANGE;
    add(text, on_lane ? " on lane '%s'" : " of ranks %s", record->group);
  }
}

static bool add_running(text_t *text, const shoal_account_t *account) {
  bool running = false;
  for (int32_t i = 0; i < account->records; ++i) {
    const int32_t state = account->record[i].state;
    if (state != SHOAL_RECORD_RUNNING && state != SHOAL_RECORD_ENQUEUED) continue;
    add(text, "%s", running ? "; and in " : ", in ");
    add_record(text, &account->record[i]);
    if (state == SHOAL_RECORD_ENQUEUED) add(text, ", enqueued");
    running = true;
  }
  if (account->enqueued > 0) add(text, "; %d more enqueued", account->enqueued);
  return running;
}

// What one rank does.
static void add_account(text_t *text, int32_t rank, const shoal_account_t *account) {
  switch ((shoal_presence_t)account->presence) {
    case SHOAL_PRESENCE_UNASKED:
      add(text, "\n  rank %d could not be asked", rank);
      return;
    case SHOAL_PRESENCE_SILENT:
      add(text, "\n  rank %d does not answer: its process is stopped, gone or cut off", rank);
      return;
    case SHOAL_PRESENCE_AWAITED:
      add(text, "\n  rank %d has not joined yet", rank);
      return;
    case SHOAL_PRESENCE_LEFT:
    case SHOAL_PRESENCE_GONE:
      add(text, "\n  rank %d has %s", rank,
          account->presence == SHOAL_PRESENCE_LEFT ? "left" : "ended");
      break;
    case SHOAL_PRESENCE_HERE:
      for (int32_t i = 0; i < account->waits; ++i) add(text, "\n  %s", account->wait[i].text);
      if (account->waits == 0) add(text, "\n  rank %d waits for nobody", rank);
  }
  const bool running = add_running(text, account);
  for (int32_t i = 0; i < account->records && !running; ++i) {
    const bool failed = account->record[i].state == SHOAL_RECORD_FAILED;
    add(text, " and is in no operation; its last, %s, was ", failed ? "which failed" : "done");
    add_record(text, &account->record[i]);
  }
  // Of a rank that left, a backend may know no more than that.
  if (account->records == 0 && account->presence == SHOAL_PRESENCE_HERE) {
    add(text, " and has begun no operation yet");
  }
}

static int32_t waited_for(const shoal_account_t *account) {
  return account->presence == SHOAL_PRESENCE_HERE && account->waits > 0 ? account->wait[0].peer
                                                                        : -1;
}

// Following who waits for whom from a rank: back to it?
static void add_circle(text_t *text, int32_t size, const shoal_account_t *accounts) {
  for (int32_t start = 0; start < size; ++start) {
    int32_t at = start, steps = 0;
    do {
      at = waited_for(&accounts[at]);
      ++steps;
    } while (at > start && at < size && steps <= size);
    if (at != start || steps < 2) continue;
    add(text, "\n  they wait for each other: rank %d", start);
    do {
      at = waited_for(&accounts[at]);
      add(text, " -> %d", at);
    } while (at != start);
    return;
  }
}

static void add_accounts(text_t *text, int32_t size, const shoal_account_t *accounts, int32_t but) {
  add_circle(text, size, accounts);
  // First those who keep others waiting and wait for nobody: there it is stuck.
  for (int pass = 0; pass < 2; ++pass) {
    for (int32_t i = 0; i < size; ++i) {
      const bool stuck = waited_for(&accounts[i]) < 0;
      if (stuck == (pass == 0) && i != but) add_account(text, i, &accounts[i]);
    }
  }
}

// `all`: this rank's account too; else the headline says what it waits for, and its operation
// follows.
static void report(shoal_world_t *world, const char *headline, bool all, char *buffer,
                   size_t capacity) {
  text_t text = {buffer, capacity, 0};
  add(&text, "%s", headline);
  shoal_allocator_t allocator = world->allocator;
  shoal_account_t *accounts =
      allocator.alloc(allocator.self, (size_t)world->size * sizeof *accounts);
  if (!accounts) return;
  for (int32_t i = 0; i < world->size; ++i) accounts[i] = (shoal_account_t){0};
  shoal_record_settle(world);
  if (world->ops->survey) {
    world->ops->survey(world, accounts);
  } else {
    shoal_account_take(world->recorder, &accounts[world->rank]);
  }
  if (!all) add_running(&text, &accounts[world->rank]);
  if (world->ops->survey || world->size == 1) {
    add_accounts(&text, world->size, accounts, all ? -1 : world->rank);
  }
  allocator.free(allocator.self, accounts);
}

void shoal_report(shoal_world_t *world, const char *headline, char *buffer, size_t capacity) {
  report(world, headline, false, buffer, capacity);
}

shoal_status_t shoal_world_report(shoal_world_t *world, char *buffer, size_t capacity) {
  if (!buffer || capacity < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "no room for a report");
  char headline[64];
  snprintf(headline, sizeof headline, "%d ranks, backend %s", world->size, world->ops->name);
  report(world, headline, true, buffer, capacity);
  return NULL;
}
