/* A Vulkan driver that refuses memory when a test asks it to, and is another driver otherwise.
 *
 * The loader takes it for a driver; every call goes to the library named by PLIMSOLL_DRIVER, but for vkAllocateMemory:
 * while the file named by PLIMSOLL_REFUSE exists, what has as many bytes as it says, `LEAST MOST`, is refused.
 * Each allocation adds a line to PLIMSOLL_ALLOCATIONS: `given BYTES` or `refused BYTES`.
 *
 * LD_PRELOAD would not do: programs get this function from the driver, by its name.
 */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INCOMPATIBLE_DRIVER = -9, OUT_OF_DEVICE_MEMORY = -2 };

typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void *of, const char *name);

/* VkMemoryAllocateInfo. */
typedef struct {
    int32_t type;
    const void *next;
    uint64_t size;
    uint32_t memory_type;
} AllocateInfo;

typedef int32_t (*AllocateMemory)(void *device, const AllocateInfo *info, const void *allocator, uint64_t *memory);

static AllocateMemory real_allocate;
static GetProcAddr real_device_addr;

static void *driver_function(const char *name) {
    static void *driver;
    if (!driver) driver = dlopen(getenv("PLIMSOLL_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return driver ? dlsym(driver, name) : NULL;
}

static void note(const char *word, uint64_t size) {
    FILE *file = fopen(getenv("PLIMSOLL_ALLOCATIONS"), "a");
    if (!file) return;
    fprintf(file, "%s %llu\n", word, (unsigned long long)size);
    fclose(file);
}

static int is_refused(uint64_t size) {
    unsigned long long least, most;
    FILE *file = fopen(getenv("PLIMSOLL_REFUSE"), "r");
    if (!file) return 0;
    int found = fscanf(file, "%llu %llu", &least, &most);
    fclose(file);
    return found == 2 && least <= size && size <= most;
}

static int32_t allocate(void *device, const AllocateInfo *info, const void *allocator, uint64_t *memory) {
    int refused = is_refused(info->size);
    note(refused ? "refused" : "given", info->size);
    return refused ? OUT_OF_DEVICE_MEMORY : real_allocate(device, info, allocator, memory);
}

static Function wrapped(const char *name, Function found) {
    if (!found || strcmp(name, "vkAllocateMemory")) return found;
    real_allocate = (AllocateMemory)found;
    return (Function)allocate;
}

static Function device_addr(void *device, const char *name) {
    return wrapped(name, real_device_addr(device, name));
}

Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    GetProcAddr real = (GetProcAddr)driver_function("vk_icdGetInstanceProcAddr");
    if (!real) return NULL;
    Function found = real(instance, name);
    if (!found || strcmp(name, "vkGetDeviceProcAddr")) return wrapped(name, found);
    real_device_addr = (GetProcAddr)found;
    return (Function)device_addr;
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
    GetProcAddr real = (GetProcAddr)driver_function("vk_icdGetPhysicalDeviceProcAddr");
    return real ? real(instance, name) : NULL;
}

int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    int32_t (*real)(uint32_t *) = (int32_t (*)(uint32_t *))driver_function("vk_icdNegotiateLoaderICDInterfaceVersion");
    return real ? real(version) : INCOMPATIBLE_DRIVER;
}
