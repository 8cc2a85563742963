// shoal run -n N -- PROGRAM ARGS: launches a program on N local ranks; see shoal/launch.h.
// shoal run --cluster FILE -- PROGRAM ARGS: on the machines of a cluster file.
//
// --threads starts the program once, with SHOAL_THREADS=N: it makes its ranks itself
// (shoal_launch_ranks), as Shoal's commands `train`, `check` and `perf` do; shoal_world_join
// refuses.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "shoal/launch.h"
#include "shoal/options.h"

typedef struct run_options {
  const char *ranks;  // a text: 0 is no number of ranks, and not `auto` either
  int64_t timeout_ms, grace_ms;
  bool threads, no_prefix, no_pin, dry_run, help;
  const char *cluster, *mpi, *mpi_options, *ssh;
} run_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(run_options_t, STRING, ranks, "auto",
                 "ranks to start; auto: one per core, or per device of the cluster",
                 .argument = "N", .letter = 'n'),
    SHOAL_OPTION(run_options_t, STRING, cluster, NULL,
                 "start them on this cluster file's machines (AutoDist's resource_spec.yml)",
                 .argument = "FILE"),
    SHOAL_OPTION(run_options_t, STRING, mpi, "auto",
                 "with --cluster: openmpi or mpich; auto: the first that is here, or none "
                 "if this machine is the only one",
                 .argument = "NAME"),
    SHOAL_OPTION(run_options_t, STRING, mpi_options, NULL,
                 "with --cluster: more options for mpirun, in one text", .argument = "WORDS"),
    SHOAL_OPTION(run_options_t, STRING, ssh, "ssh", "with --cluster: how to call ssh",
                 .argument = "WORDS"),
    SHOAL_OPTION(run_options_t, BOOL, dry_run, NULL,
                 "with --cluster: say what would be called, and stop"),
    SHOAL_OPTION(
        run_options_t, BOOL, threads, NULL,
        "start the program once with SHOAL_THREADS set: for programs that make their ranks "
        "themselves, with shoal_launch_ranks (train and check do)",
        .no_environment = true),
    SHOAL_OPTION(run_options_t, INT, timeout_ms, "auto",
                 "how long a rank waits without progress; auto: 300000"),
    SHOAL_OPTION(run_options_t, INT, grace_ms, "5000",
                 "how long the others may go on after a rank has failed"),
    SHOAL_OPTION(run_options_t, BOOL, no_prefix, NULL, "lines without the rank in front"),
    SHOAL_OPTION(run_options_t, BOOL, no_pin, NULL,
                 "ranks may run on any core; else each keeps to its share, if there are enough"),
    SHOAL_OPTION(run_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static shoal_status_t print_help(shoal_arena_t *arena, FILE *out) {
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_options_help(OPTIONS, OPTION_COUNT, arena, &text));
  fprintf(out,
          "usage: shoal run -n N [OPTIONS] -- PROGRAM [ARGS]\n"
          "       shoal run --cluster FILE [OPTIONS] -- PROGRAM [ARGS]\n\n%s",
          text);
  return NULL;
}

static shoal_status_t run_cluster(const run_options_t *options, const shoal_launch_options_t *local,
                                  char **program, shoal_arena_t *arena, FILE *out) {
  shoal_cluster_t *cluster;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read(options->cluster, shoal_allocator_system(), &cluster));
  shoal_launch_cluster_options_t launch = {.launch = *local,
                                           .mpi = options->mpi,
                                           .mpi_options = options->mpi_options,
                                           .ssh = options->ssh};
  const char *text = NULL;
  shoal_status_t status = options->dry_run
                              ? shoal_launch_cluster_print(&launch, cluster, program, arena, &text)
                              : shoal_launch_cluster(&launch, cluster, program);
  if (!status && text) fputs(text, out);
  shoal_cluster_free(cluster);
  return status;
}

// "auto" is 0.
static shoal_status_t parse_ranks(const char *text, int32_t *out_ranks) {
  char *end;
  const long long ranks = strtoll(text, &end, 10);
  const bool is_auto = strcmp(text, "auto") == 0;
  if (!is_auto && (end == text || *end || ranks < 1 || ranks > INT32_MAX)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n: '%s' is not a whole number from 1 on, nor auto",
                       text);
  }
  *out_ranks = is_auto ? 0 : (int32_t)ranks;
  return NULL;
}

// The options before "--"; the program and its arguments, as they are, behind it.
static shoal_status_t run(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  int dashes = 0;
  while (dashes < argc && strcmp(argv[dashes], "--") != 0) ++dashes;
  run_options_t options = {0};
  shoal_words_t words;
  SHOAL_RETURN_IF_ERROR(shoal_options_defaults(OPTIONS, OPTION_COUNT, arena, &options));
  SHOAL_RETURN_IF_ERROR(shoal_options_environment(OPTIONS, OPTION_COUNT, arena, &options));
  SHOAL_RETURN_IF_ERROR(shoal_options_parse(OPTIONS, OPTION_COUNT, dashes,
                                            (const char *const *)argv, arena, &options, &words));
  if (options.help) return print_help(arena, out);
  if (words.count > 0 || dashes + 1 >= argc) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal run -n N -- PROGRAM [ARGS]", "%s%s",
                            words.count > 0 ? "the program follows \"--\", before it stands "
                                            : "there is no program to run",
                            words.count > 0 ? words.items[0] : "");
  }
  if (options.timeout_ms < 0 || options.grace_ms < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a negative time: --timeout-ms %lld, --grace-ms %lld",
                       (long long)options.timeout_ms, (long long)options.grace_ms);
  }
  int32_t ranks = 0;
  SHOAL_RETURN_IF_ERROR(parse_ranks(options.ranks, &ranks));
  char **program = argv + dashes + 1;  // argv ends with NULL
  shoal_launch_options_t launch = {.ranks = ranks,
                                   .timeout_ms = options.timeout_ms,
                                   .grace_ms = options.grace_ms ? options.grace_ms : 1,  // 0: none
                                   .no_prefix = options.no_prefix,
                                   .no_pin = options.no_pin};
  if (options.cluster && options.threads) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "--cluster starts processes, --threads none: choose one");
  }
  if (options.cluster) return run_cluster(&options, &launch, program, arena, out);
  if (launch.ranks == 0) launch.ranks = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (options.threads) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)launch.ranks);
    setenv("SHOAL_THREADS", text, 1);
    if (options.timeout_ms > 0) {
      snprintf(text, sizeof text, "%lld", (long long)options.timeout_ms);
      setenv("SHOAL_TIMEOUT_MS", text, 1);
    }
    fflush(out);
    execvp(program[0], program);
    return SHOAL_ERROR(NOT_FOUND, "cannot run '%s': %s", program[0], strerror(errno));
  }
  return shoal_launch_program(&launch, program);
}

shoal_status_t cli_run(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  return run(argc, argv, arena, out);
}
