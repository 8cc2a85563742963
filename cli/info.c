// `shoal info`: what this build and this machine have.
#include <unistd.h>

#include "cli.h"
#include "planning.h"
#include "shoal/cluster.h"
#include "shoal/comm.h"
#include "shoal/data.h"
#include "shoal/device.h"
#include "shoal/op.h"
#include "shoal/planners.h"

typedef struct info_command {
  const char *cluster;
  bool help;
} info_command_t;

static const shoal_option_t table[] = {
    SHOAL_OPTION(info_command_t, STRING, cluster, NULL,
                 "describe this cluster file or preset (a100x8:16) instead", .argument = "FILE"),
    SHOAL_OPTION(info_command_t, BOOL, help, NULL, "this list")};

// The cluster's file in full, and how many ranks it has.
static shoal_status_t print_cluster(const char *spec, shoal_arena_t *arena, FILE *out) {
  shoal_cluster_t *cluster;
  const char *text;
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read(spec, shoal_allocator_system(), &cluster));
  shoal_status_t status = shoal_cluster_print(cluster, arena, &text);
  const int32_t ranks = shoal_cluster_ranks(cluster);
  if (!status && ranks > 0) {
    fprintf(out, "# %d ranks on %d nodes\n", ranks, shoal_cluster_node(cluster, ranks - 1) + 1);
  }
  if (!status) fputs(text, out);
  shoal_cluster_free(cluster);
  return status;
}

static shoal_status_t print_info(FILE *out) {
  shoal_registry_t *registry = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(shoal_allocator_system(), &registry));
  fprintf(out, "cores %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
  fprintf(out, "devices");
  for (int64_t i = 0; shoal_device_kind_name(i); ++i)
    fprintf(out, " %s", shoal_device_kind_name(i));
  for (int missing = 0; missing < 2; ++missing) {
    bool available = false;
    fprintf(out, missing ? "\nunavailable" : "\ncommunication");
    for (int64_t i = 0; shoal_comm_backend(i, &available); ++i)
      if (available == !missing) fprintf(out, " %s", shoal_comm_backend(i, NULL));
  }
  for (int missing = 1; missing >= 0; --missing) {
    bool available = false;
    if (!missing) fprintf(out, " cuda\nimages");
    for (int64_t i = 0; shoal_image_format(i, &available); ++i)
      if (available == !missing) fprintf(out, " %s", shoal_image_format(i, NULL));
  }
  fputc('\n', out);
  fprintf(out, "strategies");
  for (int64_t i = 0; i < shoal_strategies_count(NULL); ++i)
    fprintf(out, " %s", shoal_strategies_get(NULL, i)->name);
  fprintf(out, "\nops %lld:", (long long)shoal_registry_count(registry));
  for (int64_t i = 0; i < shoal_registry_count(registry); ++i)
    fprintf(out, " %s", shoal_registry_op(registry, i)->name);
  int64_t families;
  const shoal_zoo_family_t *const *family = shoal_zoo_families(&families);
  fprintf(out, "\nmodels");
  for (int64_t i = 0; i < families; ++i) fprintf(out, " %s", family[i]->name);
  fprintf(out, "\nkinds of devices");
  for (int64_t i = 0; shoal_cluster_kind(i); ++i) fprintf(out, " %s", shoal_cluster_kind(i)->name);
  fprintf(out, "\n");
  shoal_registry_release(registry);
  return NULL;
}

shoal_status_t cli_info(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  info_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("info", "", table, 2, argc, argv, arena, &command, &words, out);
  if (!status && words.count > 0)
    status = SHOAL_ERROR(INVALID_ARGUMENT, "shoal info takes no argument '%s'", words.items[0]);
  if (!status && !command.help) {
    status = command.cluster ? print_cluster(command.cluster, arena, out) : print_info(out);
  }
  return status;
}
