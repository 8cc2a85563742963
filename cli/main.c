// `shoal`: finds the sub-command, runs it, prints its error and turns it into an exit code.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "shoal/options.h"

typedef struct command {
  const char *name, *arguments, *doc;
  shoal_status_t (*run)(int argc, char **argv, shoal_arena_t *arena, FILE *out);
} command_t;

static const command_t commands[] = {
#define SHOAL_COMMAND(name, arguments, doc) {#name, arguments, doc, cli_##name},
#include "commands.inc"
#undef SHOAL_COMMAND
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

// A command's name as it is typed: slurm-watch is cli_slurm_watch.
static const char *typed(const command_t *command, char buffer[32]) {
  snprintf(buffer, 32, "%s", command->name);
  for (char *at = buffer; *at; ++at)
    if (*at == '_') *at = '-';
  return buffer;
}

static void print_help(FILE *out) {
  char name[32];
  fprintf(out, "usage: shoal COMMAND [ARGUMENTS]; shoal COMMAND --help; shoal --version\n\n");
  for (size_t i = 0; i < COMMAND_COUNT; ++i)
    fprintf(out, "  %-11s %-18s %s\n", typed(&commands[i], name), commands[i].arguments,
            commands[i].doc);
}

static int report(shoal_status_t status) {
  if (!status) return 0;
  fprintf(stderr, "shoal: error: %s: %s\n", shoal_code_name(shoal_status_code(status)),
          shoal_status_message(status));
  if (shoal_status_hint(status)[0]) fprintf(stderr, "hint: %s\n", shoal_status_hint(status));
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

// A caller may have closed standard streams: the next file opened would be taken for one of them.
// Opened the wrong way round, so that results nobody gets are an error, as on a full disk.
static void hold_standard_streams(void) {
  const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int i = 0; i < 3; ++i) {
    if (fcntl(i, F_GETFD) < 0 && open("/dev/null", modes[i]) != i) return;
  }
}

static void pass(int number) {
  (void)number;
}

// A write beyond `ulimit -f` fails, and that error is said, rather than that a signal ends us. Not
// SIG_IGN, which programs that `shoal run` starts would inherit.
static void catch_file_limit(void) {
  struct sigaction now, action = {.sa_handler = pass, .sa_flags = SA_RESTART};
  if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
    sigaction(SIGXFSZ, &action, NULL);
}

static shoal_status_t run(const command_t *command, int argc, char **argv) {
  shoal_arena_t *arena = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_status_t status = command->run(argc, argv, arena, stdout);
  shoal_arena_free(arena);
  return status;
}

int main(int argc, char **argv) {
  hold_standard_streams();
  catch_file_limit();
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    print_help(argc < 2 ? stderr : stdout);
    return argc < 2 ? shoal_code_exit(SHOAL_INVALID_ARGUMENT) : 0;
  }
  if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
    printf("shoal %s\n", shoal_version());
    return fflush(stdout) == 0 ? 0 : shoal_code_exit(SHOAL_IO);
  }
  const char *names[COMMAND_COUNT];
  char typed_names[COMMAND_COUNT][32];
  for (size_t i = 0; i < COMMAND_COUNT; ++i) {
    names[i] = typed(&commands[i], typed_names[i]);
    if (strcmp(argv[1], names[i]) != 0) continue;
    int code = report(run(&commands[i], argc - 2, argv + 2));
    if (fflush(stdout) != 0 || ferror(stdout)) {
      fprintf(stderr, "shoal: error: IO: standard output could not be written\n");
      return code ? code : shoal_code_exit(SHOAL_IO);
    }
    return code;
  }
  shoal_hint_t hint;
  return report(SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      shoal_did_you_mean(argv[1], names, COMMAND_COUNT, "shoal --help lists them", &hint),
      "there is no command '%s'", argv[1]));
}
