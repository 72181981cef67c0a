/* Takes down what a process writes to files under TRACT_TAPE_OF, and when it flushes them, in the
 * order in which it happens, to the file TRACT_TAPE. A record is: kind (1 write, 2 length, 3 flush, 4 delete),
 * length of the path, offset, length of the data, each 8 bytes; then path and data.
 *
 * Where TRACT_FAIL_AT says a number, the access of that number (from 1, of files whose path holds
 * TRACT_FAIL_IN) fails: as TRACT_FAIL_HOW says `once`, it and all after it (`ever`), it and all
 * after it that write (`full`, no space left), or it writes but a half (`short`), which is no error
 * yet. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int tape = -1;

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void put(const void *data, size_t length) {
    static ssize_t (*writes)(int, const void *, size_t);
    if (!writes) writes = (ssize_t (*)(int, const void *, size_t))real("write");
    const char *at = data;
    while (length > 0) {
        ssize_t done = writes(tape, at, length);
        if (done <= 0) abort();
        at += done;
        length -= (size_t)done;
    }
}

static void take_path(int64_t kind, const char *path, size_t long_, int64_t offset, const void *data,
                      size_t length) {
    const char *folder = getenv("TRACT_TAPE_OF"), *out = getenv("TRACT_TAPE");
    if (!folder || !out) return;
    if (long_ < strlen(folder) || strncmp(path, folder, strlen(folder)) != 0) return;
    pthread_mutex_lock(&lock);
    if (tape < 0) tape = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (tape < 0) abort();
    int64_t head[4] = {kind, (int64_t)long_, offset, (int64_t)length};
    put(head, sizeof head);
    put(path, long_);
    put(data, length);
    pthread_mutex_unlock(&lock);
}

static void take(int64_t kind, int fd, int64_t offset, const void *data, size_t length) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t long_ = readlink(link, path, sizeof path);
    if (long_ > 0) take_path(kind, path, (size_t)long_, offset, data, length);
}

static long accesses = 0;

/* Says what becomes of an access: 0 it goes through, -1 it fails with errno set, 1 it is cut short. */
static int fate(int64_t kind, int fd) {
    const char *at = getenv("TRACT_FAIL_AT"), *in = getenv("TRACT_FAIL_IN"), *how = getenv("TRACT_FAIL_HOW");
    const char *folder = getenv("TRACT_TAPE_OF");
    char link[64], path[4096];
    if (!at || !in || !how || !folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t long_ = readlink(link, path, sizeof path - 1);
    if (long_ <= 0) return 0;
    path[long_] = 0;
    if (strncmp(path, folder, strlen(folder)) != 0 || !strstr(path, in)) return 0;
    long wanted = atol(at), now = __atomic_add_fetch(&accesses, 1, __ATOMIC_SEQ_CST);
    if (!strcmp(how, "short")) return now == wanted && kind == 1 ? 1 : 0;
    if (!strcmp(how, "once") ? now != wanted : now < wanted) return 0;
    if (!strcmp(how, "full") && kind != 1) return 0;
    errno = !strcmp(how, "full") ? ENOSPC : EIO;
    return -1;
}

ssize_t write(int fd, const void *data, size_t length) {
    int fate_ = fate(1, fd);
    if (fate_ < 0) return -1;
    if (fate_ > 0 && length > 1) length /= 2;
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t))real("write");
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t done = next(fd, data, length);
    if (done > 0 && at >= 0) take(1, fd, at, data, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    int fate_ = fate(1, fd);
    if (fate_ < 0) return -1;
    if (fate_ > 0 && length > 1) length /= 2;
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t, off_t))real("pwrite");
    ssize_t done = next(fd, data, length, at);
    if (done > 0) take(1, fd, at, data, (size_t)done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    int fate_ = fate(1, fd);
    if (fate_ < 0) return -1;
    if (fate_ > 0 && length > 1) length /= 2;
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t, off64_t))real("pwrite64");
    ssize_t done = next(fd, data, length, at);
    if (done > 0) take(1, fd, at, data, (size_t)done);
    return done;
}

int ftruncate(int fd, off_t length) {
    int fate_ = fate(2, fd);
    if (fate_ < 0) return -1;
    static int (*next)(int, off_t);
    if (!next) next = (int (*)(int, off_t))real("ftruncate");
    int done = next(fd, length);
    if (done == 0) take(2, fd, length, "", 0);
    return done;
}

int ftruncate64(int fd, off64_t length) {
    int fate_ = fate(2, fd);
    if (fate_ < 0) return -1;
    static int (*next)(int, off64_t);
    if (!next) next = (int (*)(int, off64_t))real("ftruncate64");
    int done = next(fd, length);
    if (done == 0) take(2, fd, length, "", 0);
    return done;
}

int unlink(const char *name) {
    static int (*next)(const char *);
    if (!next) next = (int (*)(const char *))real("unlink");
    char path[PATH_MAX];
    int known = realpath(name, path) != NULL;
    int done = next(name);
    if (done == 0 && known) take_path(4, path, strlen(path), 0, "", 0);
    return done;
}

int fsync(int fd) {
    int fate_ = fate(3, fd);
    if (fate_ < 0) return -1;
    static int (*next)(int);
    if (!next) next = (int (*)(int))real("fsync");
    int done = next(fd);
    if (done == 0) take(3, fd, 0, "", 0);
    return done;
}

int fdatasync(int fd) {
    int fate_ = fate(3, fd);
    if (fate_ < 0) return -1;
    static int (*next)(int);
    if (!next) next = (int (*)(int))real("fdatasync");
    int done = next(fd);
    if (done == 0) take(3, fd, 0, "", 0);
    return done;
}
