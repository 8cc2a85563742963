// The hub: its memory, bells, and who is alive.
#include "comm/backends/local/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/backends/local/meet.h"

#define MAGIC UINT64_C(0x3462756c616f6873)  // "shoalub4": changes with the layout of the structs
#define RINGS_BYTES (128 << 20)  // what all rings together aim at; untouched pages cost nothing
#define MIN_RING 512
#define MAX_RING (64 << 10)
#define MIN_HEAP (INT64_C(64) << 20)  // per rank

// ---- memory ---------------------------------------------------------------------------

static int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// As much as the machine has: what a rank may allocate is not limited here.
static int64_t machine_bytes(void) {
  const int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return round_up(bytes > 0 ? bytes : 1, INT64_C(1) << 30);
}

// Sizes and offsets for `size` ranks.
static shoal_hub_t plan(int32_t size, int64_t heap_bytes) {
  const int64_t pipes = (int64_t)size * size * SHOAL_HUB_PIPES;
  int64_t ring = MAX_RING;
  while (ring > MIN_RING && ring * pipes > RINGS_BYTES) ring /= 2;
  shoal_hub_t hub = {.magic = MAGIC, .size = size, .ring = (uint32_t)ring};
  const int64_t header = (int64_t)sizeof(shoal_hub_t) + size * (int64_t)sizeof(shoal_hub_rank_t);
  hub.recorders_at = round_up(header, 64);
  hub.used_at = round_up(hub.recorders_at + size * (int64_t)sizeof(shoal_recorder_t), 64);
  hub.pipes_at = round_up(hub.used_at + (int64_t)size * size * (int64_t)sizeof(uint32_t), 64);
  hub.rings_at = round_up(hub.pipes_at + pipes * (int64_t)sizeof(shoal_hub_pipe_t), 4096);
  hub.slots_at = round_up(hub.rings_at + pipes * ring, 4096);
  hub.slot_bytes = round_up(shoal_meet_slot_bytes(size), 4096);
  hub.heaps_at = hub.slots_at + size * SHOAL_HUB_SLOTS * hub.slot_bytes;
  hub.heap_bytes = heap_bytes;
  hub.bytes = hub.heaps_at + size * heap_bytes;
  return hub;
}

static shoal_status_t check_size(int32_t size) {
  if (size >= 1 && size <= SHOAL_HUB_MAX_RANKS) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "backend 'local' has 1 to %d ranks, not %d", SHOAL_HUB_MAX_RANKS,
                     size);
}

static shoal_status_t map(int fd, int64_t bytes, shoal_hub_t **out_hub) {
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    return SHOAL_ERROR(OUT_OF_MEMORY, "cannot map %lld bytes for the ranks' messages: %s",
                       (long long)bytes, strerror(errno));
  }
  *out_hub = memory;
  return NULL;
}

// A file of that size, mapped; out_fd NULL: plain memory.
static shoal_status_t create(const shoal_hub_t *planned, int *out_fd, shoal_hub_t **out_hub) {
  int fd = -1;
  if (out_fd) {
    fd = memfd_create("shoal", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, planned->bytes) != 0) {
      shoal_status_t status =
          SHOAL_ERROR(UNAVAILABLE, "cannot create shared memory of %lld bytes: %s",
                      (long long)planned->bytes, strerror(errno));
      if (fd >= 0) close(fd);
      return status;
    }
  }
  shoal_status_t status = map(fd, planned->bytes, out_hub);
  if (status) {
    if (fd >= 0) close(fd);
    return status;
  }
  **out_hub = *planned;  // the rest is zero
  if (out_fd) *out_fd = fd;
  return NULL;
}

shoal_status_t shoal_hub_create(int32_t size, int *out_fd, shoal_hub_t **out_hub) {
  SHOAL_RETURN_IF_ERROR(check_size(size));
  // Where address space is limited (ulimit -v), smaller heaps do.
  int64_t heap = out_fd ? machine_bytes() : 0;
  for (;;) {
    const shoal_hub_t planned = plan(size, heap);
    shoal_status_t status = create(&planned, out_fd, out_hub);
    if (!status || heap <= MIN_HEAP) return status;
    shoal_status_free(status);
    heap = heap / 4 > MIN_HEAP ? heap / 4 : MIN_HEAP;
  }
}

shoal_status_t shoal_hub_open(int fd, int32_t size, shoal_hub_t **out_hub) {
  SHOAL_RETURN_IF_ERROR(check_size(size));
  shoal_hub_t found;
  struct stat stat;
  if (fstat(fd, &stat) != 0 || pread(fd, &found, sizeof found, 0) != sizeof found ||
      stat.st_size != found.bytes) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, "start the program with `shoal run -n N -- program`",
                            "descriptor %d is not the shared memory of %d local ranks", fd, size);
  }
  if (found.magic != MAGIC || found.size != size) {
    return SHOAL_ERROR(UNAVAILABLE, "the launcher is of another version of Shoal");
  }
  return map(fd, found.bytes, out_hub);
}

void shoal_hub_close(shoal_hub_t *hub) {
  if (hub) munmap(hub, (size_t)hub->bytes);
}

// ---- bells ----------------------------------------------------------------------------

void shoal_hub_ring_bell(shoal_hub_t *hub, int32_t rank) {
  shoal_hub_rank_t *r = &hub->ranks[rank];
  atomic_fetch_add(&r->bell, 1);
  if (atomic_load(&r->sleepers) > 0) shoal_futex_wake(&r->bell, INT32_MAX);
}

static void ring_all(shoal_hub_t *hub) {
  for (int32_t i = 0; i < hub->size; ++i) shoal_hub_ring_bell(hub, i);
}

void shoal_hub_fail(shoal_hub_t *hub, shoal_code_t code, int32_t rank, const char *message) {
  shoal_failure_set(&hub->failure, code, rank, message);
  ring_all(hub);
}

// ---- who is alive ---------------------------------------------------------------------

// State letter and start time of a process; false when there is none.
static bool read_process(int64_t pid, char *out_state, uint64_t *out_born) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return false;
  text[length] = 0;
  const char *at = strrchr(text, ')');  // the name may contain anything
  if (!at || at[1] != ' ') return false;
  *out_state = at[2];
  // The state is field 3, the start time field 22.
  at += 2;
  for (int field = 3; field < 22; ++field) {
    at = strchr(at, ' ');
    if (!at) return false;
    ++at;
  }
  *out_born = strtoull(at, NULL, 10);
  return true;
}

void shoal_hub_set_process(shoal_hub_t *hub, int32_t rank, int64_t pid) {
  char state;
  uint64_t born = 0;
  read_process(pid, &state, &born);
  atomic_store(&hub->ranks[rank].born, born);
  atomic_store(&hub->ranks[rank].pid, pid);
}

uint32_t shoal_hub_join(shoal_hub_t *hub, int32_t rank) {
  _Atomic uint32_t *presence = &hub->ranks[rank].presence;
  const uint32_t generation = atomic_load(presence) / 4 + 1;
  atomic_store(presence, generation * 4 + SHOAL_HUB_JOINED);
  return generation;
}

void shoal_hub_leave(shoal_hub_t *hub, int32_t rank, shoal_hub_state_t state) {
  _Atomic uint32_t *presence = &hub->ranks[rank].presence;
  atomic_store(presence, atomic_load(presence) / 4 * 4 + (uint32_t)state);
  ring_all(hub);
}

bool shoal_hub_has_left(shoal_hub_t *hub, int32_t rank, uint32_t generation) {
  const uint32_t presence = atomic_load(&hub->ranks[rank].presence);
  return presence % 4 == SHOAL_HUB_GONE ||
         (presence % 4 == SHOAL_HUB_LEFT && presence / 4 >= generation);
}

void shoal_hub_check_processes(shoal_hub_t *hub, int32_t own_rank) {
  for (int32_t i = 0; i < hub->size; ++i) {
    shoal_hub_rank_t *r = &hub->ranks[i];
    uint32_t presence = atomic_load(&r->presence);
    const int64_t pid = atomic_load(&r->pid);
    const uint64_t born = atomic_load(&r->born);
    // One that left may be followed by another process, which joins as the same rank.
    const uint32_t was = presence % 4;
    if (i == own_rank || pid == 0 || (was != SHOAL_HUB_JOINED && was != SHOAL_HUB_ABSENT)) continue;
    char state;
    uint64_t now_born;
    if (read_process(pid, &state, &now_born) && state != 'Z' && state != 'X' && now_born == born) {
      continue;
    }
    // Unless it left just before it ended.
    if (atomic_compare_exchange_strong(&r->presence, &presence,
                                       presence / 4 * 4 + SHOAL_HUB_GONE)) {
      ring_all(hub);
    }
  }
}
