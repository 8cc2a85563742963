// The flight recorder: records, waits and accounts; see recorder.h. report.c puts them into words.
#include "comm/recorder.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm_impl.h"

static _Thread_local const char *label_of_thread;

void shoal_comm_label(const char *label) {
  label_of_thread = label;
}

const char *shoal_comm_label_of_thread(void) {
  return label_of_thread;
}

// ---- words ----------------------------------------------------------------------------

// Release and acquire: whoever reads a new word then reads no old stamp.
static void set(_Atomic uint64_t *words, size_t at, uint64_t value) {
  atomic_store_explicit(&words[at], value, memory_order_release);
}

static void store_words(_Atomic uint64_t *to, const void *from, size_t bytes) {
  uint64_t word;
  for (size_t i = 0; i < bytes / 8; ++i) {
    memcpy(&word, (const char *)from + 8 * i, 8);
    set(to, i, word);
  }
}

static void load_words(const _Atomic uint64_t *from, void *to, size_t bytes) {
  for (size_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = atomic_load_explicit(&from[i], memory_order_acquire);
    memcpy((char *)to + 8 * i, &word, 8);
  }
}

_Static_assert(sizeof(shoal_record_t) % 8 == 0 && SHOAL_WAIT_TEXT % 8 == 0, "whole words");

// ---- records --------------------------------------------------------------------------

// Two numbers in the word they share.
static uint64_t pair(int32_t first, int32_t second) {
  const int32_t both[2] = {first, second};
  uint64_t word;
  memcpy(&word, both, sizeof word);
  return word;
}

// The words of a record are written one by one: this is on the path of every operation.
enum {
  NUMBER = offsetof(shoal_record_t, number) / 8,
  CALL = offsetof(shoal_record_t, call) / 8,
  BYTES = offsetof(shoal_record_t, bytes) / 8,
  KIND_STATE = offsetof(shoal_record_t, kind) / 8,
  TAG_PEER = offsetof(shoal_record_t, tag) / 8,
  GROUP = offsetof(shoal_record_t, group) / 8,
  LABEL = offsetof(shoal_record_t, label) / 8,
  WORDS = sizeof(shoal_record_t) / 8
};
_Static_assert(offsetof(shoal_record_t, state) == offsetof(shoal_record_t, kind) + 4 &&
                   offsetof(shoal_record_t, peer) == offsetof(shoal_record_t, tag) + 4 &&
                   (KIND_STATE + 1) * 8 == offsetof(shoal_record_t, tag) &&
                   LABEL * 8 == offsetof(shoal_record_t, label) &&
                   WORDS * 8 == sizeof(shoal_record_t),
               "pairs share words");

static uint64_t begin(shoal_world_t *world, shoal_record_kind_t kind, shoal_record_state_t state,
                      const shoal_stream_t *stream, int32_t tag, int32_t peer, int64_t bytes) {
  shoal_recorder_t *recorder = world->recorder;
  const uint64_t number = atomic_fetch_add_explicit(&recorder->begun, 1, memory_order_relaxed) + 1;
  _Atomic uint64_t *stamp = &recorder->records[number % SHOAL_RECORDS].number;
  _Atomic uint64_t *words = recorder->records[number % SHOAL_RECORDS].words;
  atomic_store_explicit(stamp, 0, memory_order_relaxed);
  set(words, NUMBER, number);
  set(words, BYTES, (uint64_t)bytes);
  set(words, KIND_STATE, pair((int32_t)kind, (int32_t)state));
  set(words, TAG_PEER, pair(tag, peer));
  if (stream) {
    set(words, CALL, atomic_load_explicit(&stream->calls, memory_order_relaxed));
    store_words(words + GROUP, stream->ranks, sizeof stream->ranks);
  } else {
    set(words, CALL, 0);
    set(words, GROUP, 0);  // an empty text
  }
  set(words, LABEL, 0);
  if (label_of_thread) {
    char label[SHOAL_RECORD_LABEL] = "";
    snprintf(label, sizeof label, "%s", label_of_thread);
    store_words(words + LABEL, label, sizeof label);
  }
  atomic_store_explicit(stamp, number, memory_order_release);
  return number;
}

uint64_t shoal_record_begin(shoal_world_t *world, shoal_record_kind_t kind,
                            const shoal_stream_t *stream, int32_t tag, int32_t peer,
                            int64_t bytes) {
  return begin(world, kind, SHOAL_RECORD_RUNNING, stream, tag, peer, bytes);
}

uint64_t shoal_record_enqueue(shoal_world_t *world, shoal_record_kind_t kind,
                              const shoal_stream_t *stream, int32_t tag, int32_t peer,
                              int64_t bytes) {
  return begin(world, kind, SHOAL_RECORD_ENQUEUED, stream, tag, peer, bytes);
}

static void set_state(shoal_world_t *world, uint64_t number, shoal_record_state_t state) {
  shoal_recorder_t *recorder = world->recorder;
  if (atomic_load_explicit(&recorder->records[number % SHOAL_RECORDS].number,
                           memory_order_relaxed) != number) {
    return;  // newer ones have taken its place; one that does so just now is marked wrongly, no
             // more
  }
  _Atomic uint64_t *word = &recorder->records[number % SHOAL_RECORDS].words[KIND_STATE];
  const uint64_t present = atomic_load_explicit(word, memory_order_relaxed);
  int32_t both[2];
  memcpy(both, &present, sizeof both);
  atomic_store_explicit(word, pair(both[0], (int32_t)state), memory_order_relaxed);
}

void shoal_record_end(shoal_world_t *world, uint64_t number, bool failed) {
  set_state(world, number, failed ? SHOAL_RECORD_FAILED : SHOAL_RECORD_DONE);
}

void shoal_record_run(shoal_world_t *world, uint64_t number) {
  set_state(world, number, SHOAL_RECORD_RUNNING);
}

void shoal_record_enqueued(shoal_world_t *world) {
  atomic_fetch_add_explicit(&world->recorder->enqueued, 1, memory_order_relaxed);
}

void shoal_record_begun(shoal_world_t *world) {
  atomic_fetch_sub_explicit(&world->recorder->enqueued, 1, memory_order_relaxed);
}

// ---- waits ----------------------------------------------------------------------------

int32_t shoal_wait_tell(shoal_world_t *world, int32_t slot, int32_t peer, const char *text) {
  shoal_recorder_t *recorder = world->recorder;
  uint32_t version = 1;
  if (slot >= 0) version = atomic_load(&recorder->waits[slot].version) + 1;
  for (int32_t i = 0; i < SHOAL_WAITS && slot < 0; ++i) {
    uint32_t unused = 0;
    if (atomic_compare_exchange_strong(&recorder->waits[i].version, &unused, version)) slot = i;
  }
  if (slot < 0) return -1;
  char padded[SHOAL_WAIT_TEXT] = "";
  snprintf(padded, sizeof padded, "%s", text);
  atomic_store_explicit(&recorder->waits[slot].version, version, memory_order_relaxed);
  atomic_store_explicit(&recorder->waits[slot].peer, peer, memory_order_release);
  store_words(recorder->waits[slot].words, padded, sizeof padded);
  atomic_store_explicit(&recorder->waits[slot].version, version + 1, memory_order_release);
  return slot;
}

void shoal_wait_clear(shoal_world_t *world, int32_t slot) {
  if (slot >= 0) atomic_store(&world->recorder->waits[slot].version, 0);
}

// ---- accounts -------------------------------------------------------------------------

// False: it is not there any more, or is being written.
static bool take_record(const shoal_recorder_t *recorder, uint64_t number, shoal_record_t *out) {
  const _Atomic uint64_t *stamp = &recorder->records[number % SHOAL_RECORDS].number;
  if (atomic_load_explicit(stamp, memory_order_acquire) != number) return false;
  load_words(recorder->records[number % SHOAL_RECORDS].words, out, sizeof *out);
  out->group[sizeof out->group - 1] = 0;
  out->label[sizeof out->label - 1] = 0;
  return out->number == number && atomic_load_explicit(stamp, memory_order_acquire) == number;
}

void shoal_account_take(const shoal_recorder_t *recorder, shoal_account_t *out_account) {
  *out_account = (shoal_account_t){.presence = SHOAL_PRESENCE_HERE};
  out_account->begun = atomic_load(&recorder->begun);
  out_account->enqueued = atomic_load(&recorder->enqueued);
  out_account->progress = atomic_load(&recorder->progress);
  bool had_past = false;
  for (uint64_t back = 0; back < SHOAL_RECORDS && back < out_account->begun; ++back) {
    shoal_record_t record;
    if (out_account->records == 4) break;
    if (!take_record(recorder, out_account->begun - back, &record)) continue;
    const bool past = record.state == SHOAL_RECORD_DONE || record.state == SHOAL_RECORD_FAILED;
    if (past && had_past) continue;
    had_past |= past;
    out_account->record[out_account->records++] = record;
  }
  for (int32_t i = 0; i < SHOAL_WAITS && out_account->waits < 4; ++i) {
    const _Atomic uint32_t *version = &recorder->waits[i].version;
    const uint32_t seen = atomic_load_explicit(version, memory_order_acquire);
    const int32_t at = out_account->waits;
    char *text = out_account->wait[at].text;
    if (seen == 0 || seen % 2) continue;
    out_account->wait[at].peer =
        atomic_load_explicit(&recorder->waits[i].peer, memory_order_acquire);
    load_words(recorder->waits[i].words, text, SHOAL_WAIT_TEXT);
    text[SHOAL_WAIT_TEXT - 1] = 0;
    if (atomic_load_explicit(version, memory_order_relaxed) == seen) ++out_account->waits;
  }
}
