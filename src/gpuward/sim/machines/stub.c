/* A pretend libnvidia-ml.so.1: answers NVML's questions from the state.txt of the machine in whose lib folder it lies.
 * It changes nothing. Layouts and numbers are those of the public NVML interface. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9, LOST = 15 };
enum { MOST_GPUS = 64, UINT = 1, ULL = 3 };
#define OUT __attribute__((visibility("default"))) int

typedef struct {
    char uuid[64], pci[32], serial[32];
    long minor, hidden, drained, persistence, lost, display, mig, volatile_ecc, aggregate_ecc, remapped, pending, failed;
    long recovery, down, gen, width;
} Gpu;

typedef struct {
    char driver[64], name[96];
    long cuda, loaded, hang, handles, device, subsystem, links, speed, gen_max, mig_able, remapper;
    int count;
    Gpu gpus[MOST_GPUS];
} Machine;

typedef struct {
    char legacy_id[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char id[32];
} Pci;

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    union { double d; unsigned u; unsigned long long ull; } value;
} Field;

/* A handle is a place in this table. Which GPUs are seen is settled at init: a drain hides one from later processes only. */
typedef struct { char uuid[64]; } Seen;
static Seen seen[MOST_GPUS];
static unsigned seen_count;
static int initialised;
static char version[96];

typedef struct { const char *key; size_t offset; size_t size; } Row;
#define NUMBER(type, key, member) { key, offsetof(type, member), 0 }
#define WORDS(type, key, member) { key, offsetof(type, member), sizeof(((type *)0)->member) }

static const Row MACHINE_ROWS[] = {
    WORDS(Machine, "driver", driver), WORDS(Machine, "name", name), NUMBER(Machine, "cuda", cuda),
    NUMBER(Machine, "loaded", loaded), NUMBER(Machine, "hang", hang), NUMBER(Machine, "handles", handles),
    NUMBER(Machine, "device", device), NUMBER(Machine, "subsystem", subsystem), NUMBER(Machine, "links", links),
    NUMBER(Machine, "speed", speed), NUMBER(Machine, "gen_max", gen_max), NUMBER(Machine, "mig_able", mig_able),
    NUMBER(Machine, "remapper", remapper), { NULL, 0, 0 },
};

static const Row GPU_ROWS[] = {
    WORDS(Gpu, "gpu", uuid), WORDS(Gpu, "pci", pci), WORDS(Gpu, "serial", serial), NUMBER(Gpu, "minor", minor),
    NUMBER(Gpu, "hidden", hidden), NUMBER(Gpu, "drained", drained), NUMBER(Gpu, "persistence", persistence),
    NUMBER(Gpu, "lost", lost), NUMBER(Gpu, "display", display), NUMBER(Gpu, "mig", mig),
    NUMBER(Gpu, "ecc_volatile", volatile_ecc), NUMBER(Gpu, "ecc_aggregate", aggregate_ecc),
    NUMBER(Gpu, "remapped", remapped), NUMBER(Gpu, "pending", pending), NUMBER(Gpu, "failed", failed),
    NUMBER(Gpu, "recovery", recovery), NUMBER(Gpu, "down", down), NUMBER(Gpu, "gen", gen), NUMBER(Gpu, "width", width),
    { NULL, 0, 0 },
};

static void put(void *target, const Row *rows, const char *key, const char *value) {
    for (; rows->key; rows++) {
        if (strcmp(rows->key, key)) continue;
        char *place = (char *)target + rows->offset;
        if (rows->size) snprintf(place, rows->size, "%s", value);
        else *(long *)place = atol(value);
    }
}

static int load(Machine *machine) {
    Dl_info self;
    char path[4096], line[512];
    if (!dladdr((void *)load, &self) || !self.dli_fname) return NO_DRIVER;
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash - self.dli_fname) : 1;
    snprintf(path, sizeof path, "%.*s/../state.txt", folder, slash ? self.dli_fname : ".");
    memset(machine, 0, sizeof *machine);
    FILE *file = fopen(path, "r");
    if (!file) return NO_DRIVER;
    Gpu *gpu = NULL;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value++ = 0;
        value[strcspn(value, "\n")] = 0;
        if (!strcmp(line, "gpu") && machine->count < MOST_GPUS) gpu = &machine->gpus[machine->count++];
        if (gpu) put(gpu, GPU_ROWS, line, value);
        else put(machine, MACHINE_ROWS, line, value);
    }
    fclose(file);
    while (machine->hang) pause();
    return machine->loaded ? OK : NO_DRIVER;
}

/* Reads the machine, and the GPU of a handle where one is asked for. */
static int look(Machine *machine, const Seen *handle, Gpu **gpu) {
    if (!initialised) return UNINITIALIZED;
    int trouble = load(machine);
    if (trouble || !gpu) return trouble;
    if (handle < seen || handle >= seen + seen_count) return INVALID;
    for (int i = 0; i < machine->count; i++) {
        if (strcmp(machine->gpus[i].uuid, handle->uuid)) continue;
        *gpu = &machine->gpus[i];
        return (*gpu)->lost ? LOST : OK;
    }
    return NOT_FOUND;
}

static int say(char *target, unsigned length, const char *words) {
    if (!target) return INVALID;
    if (strlen(words) >= length) return TOO_SMALL;
    strcpy(target, words);
    return OK;
}

static int find(const char *word, int (*is)(const Gpu *, const char *), Seen **handle) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    if (trouble) return trouble;
    if (!word || !handle) return INVALID;
    for (unsigned i = 0; i < seen_count; i++) {
        for (int j = 0; j < machine.count; j++) {
            Gpu *gpu = &machine.gpus[j];
            if (strcmp(gpu->uuid, seen[i].uuid) || !is(gpu, word)) continue;
            *handle = &seen[i];
            return gpu->lost && !machine.handles ? LOST : OK;
        }
    }
    return NOT_FOUND;
}

static int is_uuid(const Gpu *gpu, const char *word) { return !strcmp(gpu->uuid, word); }
static int is_serial(const Gpu *gpu, const char *word) { return !strcmp(gpu->serial, word); }
static int is_pci(const Gpu *gpu, const char *word) {
    return !strcasecmp(gpu->pci, word) || !strcasecmp(gpu->pci + 4, word) || !strcasecmp(gpu->pci + 9, word);
}

OUT nvmlInit_v2(void) {
    Machine machine;
    int trouble = load(&machine);
    if (trouble) return trouble;
    seen_count = 0;
    for (int i = 0; i < machine.count; i++)
        if (!machine.gpus[i].hidden) strcpy(seen[seen_count++].uuid, machine.gpus[i].uuid);
    initialised = 1;
    return OK;
}
OUT nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
OUT nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised = 0;
    return OK;
}
OUT nvmlSystemGetDriverVersion(char *text, unsigned length) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    return trouble ? trouble : say(text, length, machine.driver);
}
OUT nvmlSystemGetNVMLVersion(char *text, unsigned length) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    if (trouble) return trouble;
    snprintf(version, sizeof version, "13.%s", machine.driver);
    return say(text, length, version);
}
OUT nvmlSystemGetCudaDriverVersion(int *number) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    if (!trouble) *number = (int)machine.cuda;
    return trouble;
}
OUT nvmlSystemGetCudaDriverVersion_v2(int *number) { return nvmlSystemGetCudaDriverVersion(number); }
OUT nvmlDeviceGetCount_v2(unsigned *count) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    if (!trouble) *count = seen_count;
    return trouble;
}
OUT nvmlDeviceGetHandleByIndex_v2(unsigned index, Seen **handle) {
    Machine machine;
    int trouble = look(&machine, NULL, NULL);
    if (trouble) return trouble;
    return index < seen_count ? find(seen[index].uuid, is_uuid, handle) : INVALID;
}
OUT nvmlDeviceGetHandleByUUID(const char *uuid, Seen **handle) { return find(uuid, is_uuid, handle); }
OUT nvmlDeviceGetHandleBySerial(const char *serial, Seen **handle) { return find(serial, is_serial, handle); }
OUT nvmlDeviceGetHandleByPciBusId_v2(const char *pci, Seen **handle) { return find(pci, is_pci, handle); }

/* One question of one GPU: the body sees `machine` and `gpu` and has no trouble. */
#define ASK(name, parameters, body)                                \
    OUT name parameters {                                          \
        Machine machine;                                           \
        Gpu *gpu = NULL;                                           \
        int trouble = look(&machine, handle, &gpu);                \
        if (trouble) return trouble;                               \
        body                                                       \
        return OK;                                                 \
    }
#define ASK_NUMBER(name, expression) ASK(name, (Seen *handle, unsigned *number), *number = (unsigned)(expression);)

ASK(nvmlDeviceGetName, (Seen *handle, char *text, unsigned length), return say(text, length, machine.name);)
ASK(nvmlDeviceGetUUID, (Seen *handle, char *text, unsigned length), return say(text, length, gpu->uuid);)
ASK(nvmlDeviceGetSerial, (Seen *handle, char *text, unsigned length), return say(text, length, gpu->serial);)
ASK_NUMBER(nvmlDeviceGetMinorNumber, gpu->minor)
ASK_NUMBER(nvmlDeviceGetIndex, handle - seen)
ASK_NUMBER(nvmlDeviceGetPersistenceMode, gpu->persistence)
ASK_NUMBER(nvmlDeviceGetDisplayActive, gpu->display)
ASK_NUMBER(nvmlDeviceGetDisplayMode, gpu->display)
ASK_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, gpu->gen)
ASK_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, machine.gen_max)
ASK_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, gpu->width)
ASK_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
ASK(nvmlDeviceGetMigMode, (Seen *handle, unsigned *current, unsigned *pending), {
    if (!machine.mig_able) return UNSUPPORTED;
    *current = *pending = (unsigned)gpu->mig;
})
ASK(nvmlDeviceGetTotalEccErrors, (Seen *handle, int kind, int counter, unsigned long long *count), {
    *count = kind == 0 ? 0 : (unsigned long long)(counter == 0 ? gpu->volatile_ecc : gpu->aggregate_ecc);
})
ASK(nvmlDeviceGetRemappedRows,
    (Seen *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed), {
    if (!machine.remapper || gpu->mig) return UNSUPPORTED;
    *corrected = 0;
    *uncorrected = (unsigned)gpu->remapped;
    *pending = (unsigned)gpu->pending;
    *failed = (unsigned)gpu->failed;
})
ASK(nvmlDeviceGetNvLinkState, (Seen *handle, unsigned link, int *active), {
    if (!machine.links) return UNSUPPORTED;
    if (link >= machine.links) return INVALID;
    *active = !(gpu->down >> link & 1);
})
ASK(nvmlDeviceGetPciInfo_v3, (Seen *handle, Pci *pci), {
    memset(pci, 0, sizeof *pci);
    if (sscanf(gpu->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return INVALID;
    snprintf(pci->legacy_id, sizeof pci->legacy_id, "%s", gpu->pci + 4);
    snprintf(pci->id, sizeof pci->id, "%s", gpu->pci);
    pci->pci_device = (unsigned)machine.device;
    pci->pci_subsystem = (unsigned)machine.subsystem;
})

static int number_of(const Machine *machine, const Gpu *gpu, Field *field, long *number) {
    int links = field->field == 90 || field->field == 164 || field->field == 165;
    int rows = field->field >= 142 && field->field <= 145;
    if (links && !machine->links) return UNSUPPORTED;
    if (links && field->field != 90 && field->scope >= machine->links) return INVALID;
    if (rows && (!machine->remapper || gpu->mig)) return UNSUPPORTED;
    switch (field->field) {
    case 4: *number = gpu->volatile_ecc; break;                              /* double-bit errors, volatile */
    case 6: *number = gpu->aggregate_ecc; break;                             /* double-bit errors, aggregate */
    case 90: *number = machine->speed; break;                                /* common NVLink speed in MB/s */
    case 91: *number = machine->links; break;                                /* NVLinks */
    case 142: *number = 0; break;                                            /* rows remapped, corrected */
    case 143: *number = gpu->remapped; break;                                /* rows remapped, uncorrected */
    case 144: *number = gpu->pending; break;                                 /* remapping pending */
    case 145: *number = gpu->failed; break;                                  /* remapping failed */
    case 164: *number = gpu->down >> field->scope & 1 ? 0 : machine->speed; break; /* speed of one link */
    case 165: *number = !(gpu->down >> field->scope & 1); break;             /* state of one link */
    case 230: *number = gpu->recovery; break;                                /* recovery action */
    default: return UNSUPPORTED;
    }
    return OK;
}

ASK(nvmlDeviceGetFieldValues, (Seen *handle, int count, Field *fields), {
    for (int i = 0; i < count; i++) {
        long number = 0;
        fields[i].result = number_of(&machine, gpu, &fields[i], &number);
        fields[i].type = fields[i].field == 4 || fields[i].field == 6 ? ULL : UINT;
        fields[i].value.ull = (unsigned long long)number;
    }
})
