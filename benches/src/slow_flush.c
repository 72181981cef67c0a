/* Preloaded: every flush takes as many microseconds more as TRACT_SLOW_FLUSH_US says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int flush(int);

static int slowly(const char *name, int file) {
    const char *more = getenv("TRACT_SLOW_FLUSH_US");
    long micros = more ? atol(more) : 0;
    struct timespec wait = {micros / 1000000, micros % 1000000 * 1000};
    flush *real = (flush *)dlsym(RTLD_NEXT, name);
    nanosleep(&wait, 0);
    return real(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
