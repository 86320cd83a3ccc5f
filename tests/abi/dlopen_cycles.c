/* SPDX-License-Identifier: Apache-2.0
 * Loads, queries and unloads the library a hundred times: nothing may stay behind. argv[1]: its
 * path. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"
#include "xqa/xqa.h"

enum { kCycles = 100, kWarmUp = 5, kSlackPages = 64 };

typedef const xqaApi_t* (*GetApi)(uint32_t);

static int mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  int lines = 0, c;
  EXPECT(maps != NULL);
  while ((c = fgetc(maps)) != EOF) lines += c == '\n';
  fclose(maps);
  return lines;
}

static long residentPages(void) {
  FILE* statm = fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  EXPECT(statm != NULL);
  EXPECT(fscanf(statm, "%ld %ld", &total, &resident) == 2);
  fclose(statm);
  return resident;
}

static void cycle(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol;
  GetApi getApi = NULL;
  const xqaApi_t* api;
  uint32_t i;
  EXPECT(library != NULL);
  symbol = dlsym(library, "xqaGetApi");
  EXPECT(symbol != NULL);
  memcpy(&getApi, &symbol, sizeof(getApi));
  api = getApi(XQA_ABI_VERSION);
  EXPECT(api != NULL);
  EXPECT(api->variantCount() > 0);
  for (i = 0; i < api->variantCount(); ++i) {
    xqaVariantInfo_t info = {0};
    info.struct_size = sizeof(info);
    EXPECT(api->getVariantInfo(api->variantAt(i), &info) == XQA_STATUS_SUCCESS);
  }
  EXPECT(dlclose(library) == 0);
  EXPECT(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL); /* really unloaded */
}

int main(int argc, char** argv) {
  int before, i;
  long resident;
  EXPECT(argc == 2);
  for (i = 0; i < kWarmUp; ++i) cycle(argv[1]);
  before = mappings();
  resident = residentPages();
  for (i = 0; i < kCycles; ++i) cycle(argv[1]);
  EXPECT(mappings() == before);
  EXPECT(residentPages() <= resident + kSlackPages);
  return 0;
}
