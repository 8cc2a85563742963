// A rank to be killed, or to survive another's death: what the kill tests (kill_driver.py) launch.
//
// It joins, works on several groups in every way comm has, leaves, and does all that twice. What
// came of it goes to DIR/PID: "rank R" at once; "joined"; at the end "points N", then "OK", "WRONG:
// what" or "CODE: message". So a file without an outcome is a rank that did not end by itself.
//
// Points are counted: before and after every call, and whenever Shoal allocates or frees, which is
// in the middle of joining, making groups and leaving. KILL_AT=RANK:POINT:ACTION[:MICROSECONDS],...
// makes that rank do something to itself there: kill, segv, stop, exit0, exit3. With microseconds
// another thread does it, that much later: in the middle of whatever goes on then.
//
// Usage: kill_rank DIR SEED ROUNDS
#include <fcntl.h>
#include <pthread.h>
#include <shoal/comm.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 16, MAX_COUNT = 40000, LIVES = 2 };

static int result = -1;
static _Atomic long points;
static long fatal_point = -1, fatal_delay;
static char action[8];

// ---- points ---------------------------------------------------------------------------

static void *act(void *self) {
  struct timespec now, start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 <
           fatal_delay);
  if (strncmp(action, "exit", 4) == 0) _exit(action[4] - '0');
  if (strcmp(action, "segv") == 0) signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it
  kill(getpid(), strcmp(action, "stop") == 0 ? SIGSTOP : action[0] == 's' ? SIGSEGV : SIGKILL);
  return self;
}

static void point(void) {
  if (++points != fatal_point) return;
  pthread_t thread;
  if (fatal_delay == 0 || pthread_create(&thread, NULL, act, NULL) != 0) act(NULL);
  if (fatal_delay == 0) sleep(1000);  // until the signal comes
}

static shoal_allocator_t below;

static void *alloc_at_a_point(void *self, size_t size) {
  point();
  return below.alloc(self, size);
}

static void free_at_a_point(void *self, void *memory) {
  point();
  below.free(self, memory);
}

// Before it joins a rank knows its number from whoever launched it.
static int launched_rank(void) {
  static const char *const names[] = {"SHOAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK",
                                      "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (getenv(names[i])) return atoi(getenv(names[i]));
  }
  return 0;
}

// Its own fate among all ranks', which are separated by commas.
static void read_fate(int rank) {
  const char *text = getenv("KILL_AT");
  for (; text && *text; text = strchr(text, ','), text += text != NULL) {
    int who, at, delay = 0;
    char what[8];
    if (sscanf(text, "%d:%d:%7[a-z0-9]:%d", &who, &at, what, &delay) < 3 || who != rank) continue;
    fatal_point = at;
    fatal_delay = delay;
    memcpy(action, what, sizeof action);
  }
}

// ---- data -----------------------------------------------------------------------------

typedef struct life {
  shoal_world_t *world;
  int32_t me, size;
  shoal_group_t *groups[3];  // all, backwards; those as odd as this rank; this rank and a neighbour
  int32_t members[3][MAX_RANKS], sizes[3];
  shoal_window_t *window;
  int64_t *shared[2], *own[2];  // sent from, received into: seen by all ranks, or by this one only
} life_t;

// Element i of what a rank brings to a round.
static int64_t value(int32_t rank, int64_t i, uint64_t round) {
  return (int64_t)((uint64_t)(rank * 7 + i * 3) + round) % 101;
}

static uint64_t mix(uint64_t seed, uint64_t round) {
  uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + round * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 31) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 29;
}

static shoal_status_t wrong(const char *what, int64_t got, int64_t expected) {
  char message[200];
  snprintf(message, sizeof message, "WRONG: %s gives %lld, not %lld", what, (long long)got,
           (long long)expected);
  return shoal_status_create(SHOAL_INTERNAL, __FILE__, __LINE__, message, NULL);
}

// ---- what a round does ----------------------------------------------------------------

static shoal_status_t do_all_reduce(life_t *life, int g, uint64_t round, int64_t count,
                                    const int64_t *send, int64_t *recv) {
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(life->groups[g], SHOAL_I64, SHOAL_REDUCE_SUM, count, send, recv));
  for (int64_t i = 0; i < count; ++i) {
    int64_t sum = 0;
    for (int32_t m = 0; m < life->sizes[g]; ++m) sum += value(life->members[g][m], i, round);
    if (recv[i] != sum) return wrong("all_reduce", recv[i], sum);
  }
  return NULL;
}

static shoal_status_t do_broadcast(life_t *life, int g, uint64_t round, int64_t count,
                                   int64_t *recv) {
  const int32_t root = (int32_t)(round % (uint64_t)life->sizes[g]);
  const int32_t from = life->members[g][root];
  for (int64_t i = 0; i < count; ++i) recv[i] = value(life->me, i, round);
  SHOAL_RETURN_IF_ERROR(
      shoal_broadcast(life->groups[g], recv, count * (int64_t)sizeof *recv, root));
  for (int64_t i = 0; i < count; ++i) {
    if (recv[i] != value(from, i, round)) {
      return wrong("broadcast", recv[i], value(from, i, round));
    }
  }
  return NULL;
}

static shoal_status_t do_all_to_all(life_t *life, int g, uint64_t round, int64_t count,
                                    const int64_t *send, int64_t *recv) {
  int64_t counts[MAX_RANKS];
  const int32_t n = life->sizes[g], mine = shoal_group_rank(life->groups[g]);
  const int64_t part = count / n;
  for (int32_t m = 0; m < n; ++m) counts[m] = part;
  SHOAL_RETURN_IF_ERROR(shoal_all_to_all(life->groups[g], SHOAL_I64, counts, send, counts, recv));
  for (int64_t i = 0; i < part * n; ++i) {
    const int64_t expected = value(life->members[g][i / part], mine * part + i % part, round);
    if (recv[i] != expected) return wrong("all_to_all", recv[i], expected);
  }
  return NULL;
}

// Around the world, through the ranks' rings; while an all_reduce of another group is under way.
static shoal_status_t do_exchange_and_async(life_t *life, int g, uint64_t round, int64_t count,
                                            const int64_t *send, int64_t *recv) {
  const shoal_collective_t sum = {.kind = SHOAL_COLLECTIVE_ALL_REDUCE,
                                  .dtype = SHOAL_I64,
                                  .reduce = SHOAL_REDUCE_SUM,
                                  .count = count,
                                  .send = send,
                                  .recv = recv};
  shoal_request_t request;
  SHOAL_RETURN_IF_ERROR(shoal_collective_start(life->groups[g], &sum, &request));
  point();
  const int32_t next = (life->me + 1) % life->size, last = (life->me + life->size - 1) % life->size;
  static int64_t out[9000], in[9000];
  const int64_t most = count < 9000 ? count : 9000;
  for (int64_t i = 0; i < most; ++i) out[i] = value(life->me, i, round);
  shoal_message_t to = {.peer = next, .tag = 5, .bytes = most * 8, .data = out};
  shoal_message_t from = {.peer = last, .tag = 5, .bytes = most * 8, .data = in};
  shoal_exchange_t exchange;
  shoal_status_t status = shoal_exchange_start(life->world, 1, &to, 1, &from, &exchange);
  point();
  if (!status) status = shoal_exchange_wait(&exchange);
  point();
  shoal_status_t other = shoal_request_wait(&request);
  if (status || other) {
    shoal_status_free(status ? other : NULL);
    return status ? status : other;
  }
  for (int64_t i = 0; i < most; ++i) {
    if (in[i] != value(last, i, round)) return wrong("exchange", in[i], value(last, i, round));
  }
  return NULL;
}

// Everybody adds to everybody's shard, and waits until all have in its own.
static shoal_status_t do_window(life_t *life, uint64_t *puts, int64_t count, const int64_t *send,
                                int64_t *recv) {
  const int32_t mine = shoal_group_rank(life->groups[0]);
  ++*puts;
  for (int32_t m = 0; m < life->size; ++m) {
    SHOAL_RETURN_IF_ERROR(shoal_window_put_add(life->window, m, SHOAL_I64, 0, count, send));
    point();
  }
  SHOAL_RETURN_IF_ERROR(shoal_window_wait(life->window, mine, -1, *puts));
  return shoal_window_get(life->window, (mine + 1) % life->size, 0, count * 8, recv, NULL);
}

static shoal_status_t do_new_group(life_t *life) {
  shoal_group_t *group;
  SHOAL_RETURN_IF_ERROR(shoal_group_create(life->world, life->size, NULL, &group));
  point();
  shoal_status_t status = shoal_barrier(group);
  point();
  shoal_group_free(group);
  return status;
}

static shoal_status_t do_round(life_t *life, uint64_t seed, uint64_t round, uint64_t *puts) {
  static const int64_t counts[] = {0, 1, 60, 900, 5000, MAX_COUNT};
  const uint64_t draw = mix(seed, round);
  const int64_t count = counts[draw % 6];
  const int g = (int)(draw / 8 % 3);
  const bool private = draw / 32 % 2;
  int64_t *send = private ? life->own[0] : life->shared[0];
  int64_t *recv = private ? life->own[1] : life->shared[1];
  for (int64_t i = 0; i < count; ++i) send[i] = value(life->me, i, round);
  switch (draw / 64 % 8) {
    case 0:
      return do_broadcast(life, g, round, count, recv);
    case 1:
      return do_all_to_all(life, g, round, count, send, recv);
    case 2:
      return do_exchange_and_async(life, g, round, count, send, recv);
    case 3:
      return life->window ? do_window(life, puts, count, send, recv) : NULL;
    case 4:
      return do_new_group(life);
    case 5:
      return shoal_barrier(life->groups[g]);
    default:
      return do_all_reduce(life, g, round, count, send, recv);
  }
}

static void say(const char *what, const char *more) {
  char line[2000];
  const int length = snprintf(line, sizeof line, "%s%s\n", what, more);
  if (write(result, line, (size_t)length) != length) _exit(99);
}

// ---- a life: join, work, leave --------------------------------------------------------

static shoal_status_t make_groups(life_t *life) {
  for (int32_t i = 0; i < life->size; ++i) {
    life->members[0][life->sizes[0]++] = life->size - 1 - i;
    if (i % 2 == life->me % 2) life->members[1][life->sizes[1]++] = i;
    if (i / 2 == life->me / 2) life->members[2][life->sizes[2]++] = i;
  }
  for (int g = 0; g < 3; ++g) {
    SHOAL_RETURN_IF_ERROR(
        shoal_group_create(life->world, life->sizes[g], life->members[g], &life->groups[g]));
    point();
  }
  return NULL;
}

static shoal_status_t make_buffers(life_t *life) {
  for (int i = 0; i < 2; ++i) {
    void *memory;
    SHOAL_RETURN_IF_ERROR(shoal_comm_alloc(life->world, MAX_COUNT * 8, &memory));
    point();
    life->shared[i] = memory;
    life->own[i] = calloc(MAX_COUNT, 8);
    if (!life->own[i]) abort();
  }
  shoal_status_t status = shoal_window_create(life->groups[0], MAX_COUNT * 8, &life->window);
  if (shoal_status_code(status) != SHOAL_UNSUPPORTED) return status;
  shoal_status_free(status);
  return NULL;
}

static shoal_status_t live(uint64_t seed, uint64_t rounds) {
  life_t life = {0};
  uint64_t puts = 0;
  const shoal_world_options_t options = {
      .allocator = {below.self, alloc_at_a_point, free_at_a_point}};
  point();
  SHOAL_RETURN_IF_ERROR(shoal_world_join(&options, &life.world));
  say("joined", "");
  point();
  life.me = shoal_world_rank(life.world);
  life.size = shoal_world_size(life.world);
  shoal_status_t status = make_groups(&life);
  if (!status) status = make_buffers(&life);
  for (uint64_t round = 0; round < rounds && !status; ++round) {
    point();
    status = do_round(&life, seed, round, &puts);
  }
  point();
  shoal_window_free(life.window);
  for (int g = 0; g < 3; ++g) {
    point();
    shoal_group_free(life.groups[g]);
  }
  for (int i = 0; i < 2; ++i) {
    shoal_comm_release(life.world, life.shared[i]);
    free(life.own[i]);
  }
  point();
  shoal_world_release(life.world);
  point();
  return status;
}

static void say_number(const char *what, long number) {
  char text[24];
  snprintf(text, sizeof text, " %ld", number);
  say(what, text);
}

static void say_outcome(shoal_status_t status) {
  char text[1600];
  if (strncmp(shoal_status_message(status), "WRONG: ", 7) == 0) {
    say("", shoal_status_message(status));
  } else if (status) {
    snprintf(text, sizeof text, "%s: %s", shoal_code_name(shoal_status_code(status)),
             shoal_status_message(status));
    fprintf(stderr, "%s\n", text);
    say("", text);
  } else {
    say("OK", "");
  }
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: kill_rank DIR SEED ROUNDS\n");
    return 2;
  }
  char path[500];
  snprintf(path, sizeof path, "%s/%d", argv[1], (int)getpid());
  result = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (result < 0) return 98;
  const int rank = launched_rank();
  say_number("rank", rank);
  read_fate(rank);
  below = shoal_allocator_system();
  const uint64_t seed = strtoull(argv[2], NULL, 10), rounds = strtoull(argv[3], NULL, 10);
  shoal_status_t status = NULL;
  for (uint64_t i = 0; i < LIVES && !status; ++i) status = live(seed + i, rounds);
  point();
  say_number("points", points);
  say_outcome(status);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  point();
  return code;
}
