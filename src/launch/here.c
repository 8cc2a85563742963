// See here.h.
#include "launch/here.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// The bytes of an address in network order; NULL if it is of another family.
static const void *bytes_of(const struct sockaddr *address, int family) {
  if (!address || address->sa_family != family) return NULL;
  if (family == AF_INET) return &((const struct sockaddr_in *)(const void *)address)->sin_addr;
  return &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static bool is_of_an_interface(int family, const void *bytes, size_t size) {
  struct ifaddrs *list;
  if (getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
    const void *own = bytes_of(at->ifa_addr, family);
    found = own && memcmp(own, bytes, size) == 0;
  }
  freeifaddrs(list);
  return found;
}

bool shoal_launch_is_here(const char *address) {
  char name[256] = "";
  if (strcasecmp(address, "localhost") == 0) return true;
  if (gethostname(name, sizeof name - 1) == 0 && strcasecmp(address, name) == 0) return true;
  struct in_addr v4;
  struct in6_addr v6;
  if (inet_pton(AF_INET, address, &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127 || is_of_an_interface(AF_INET, &v4, sizeof v4);
  }
  if (inet_pton(AF_INET6, address, &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || is_of_an_interface(AF_INET6, &v6, sizeof v6);
}
