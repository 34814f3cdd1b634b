/* The compiled stream: messages on a connected stream socket, Unix or TCP; plain_stream.py keeps the same promises.

   On the wire a message is head, header, serializer name, message id, content and signature, in this order, so
   that both ends hash a large content while the kernel carries it. protocol/binding.py says what is signed.

   Nothing is given to Python before its tag held. Whoever waits holds no GIL. The flags of a stream change with the
   GIL held; a thread that uses the socket without it is counted in `sending` or `receiving`, so that `close` never
   closes a number that another descriptor may have got meanwhile. */

#include "hmac.h"
#include <errno.h>
#include <stdlib.h>

enum { HEAD = 20, VERSION = 2, CARRYING = 1, NONE = 0, HMAC_SHA256 = 1, AES_GCM = 3, GCM_TAG = 16 };
enum { MAX_HEADER = 2048, MAX_SERIALIZER = 32, MAX_MSGID = 128, MAX_SIGNATURE = 512 };
enum { INLINE = 1 << 16, MAX_FRONT = HEAD + MAX_HEADER + MAX_SERIALIZER + MAX_MSGID, ROOM = 1 << 17, PIECE = 1 << 18 };
static const uint64_t MOST_MESSAGES = (uint64_t)1 << 32;

typedef struct { size_t header, serializer, msgid, signature; uint64_t content; int version, flags, zero; } Sizes;

static size_t front_of(const Sizes *s) { return HEAD + s->header + s->serializer + s->msgid; }

static uint64_t little(const unsigned char *from, int size) {
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; i--) value = value << 8 | from[i];
    return value;
}

static void write_little(unsigned char *to, uint64_t value, int size) {
    for (int i = 0; i < size; i++, value >>= 8) to[i] = (unsigned char)value;
}

static void write_head(unsigned char *to, const Sizes *s) {
    to[0] = VERSION;
    to[1] = (unsigned char)s->flags;
    write_little(to + 2, s->header, 2);
    write_little(to + 4, s->serializer, 2);
    write_little(to + 6, s->msgid, 2);
    write_little(to + 8, s->signature, 2);
    write_little(to + 10, 0, 2);
    write_little(to + 12, s->content, 8);
}

static int too_large(const Sizes *s, uint64_t most) {
    return s->header > MAX_HEADER || s->serializer > MAX_SERIALIZER || s->msgid > MAX_MSGID || s->content > most;
}

/* Read a head; 0 when it is of another version, or says what cannot be. */
static int read_head(const unsigned char *from, Sizes *s, uint64_t most) {
    *s = (Sizes){little(from + 2, 2), little(from + 4, 2), little(from + 6, 2), little(from + 8, 2),
                 little(from + 12, 8), from[0], from[1], (int)little(from + 10, 2)};
    return s->version == VERSION && !s->zero && !(s->flags & ~CARRYING) && s->signature <= MAX_SIGNATURE
           && !too_large(s, most);
}

/* ---- one direction of a binding -------------------------------------------------------------------------- */

typedef struct { int suite; Hmac key; void *gcm; uint64_t count; } Direction;
typedef struct { Sha sha; } Running;        /* the state of HMAC's inner hash; that of GCM lies in its context */

static struct {                             /* EVP functions of libcrypto; their types are opaque to us */
    void *(*new_context)(void);
    void (*free_context)(void *);
    const void *(*cipher)(void);
    int (*begin)(void *, const void *, void *, const unsigned char *, const unsigned char *, int);
    int (*update)(void *, unsigned char *, int *, const unsigned char *, int);
    int (*end)(void *, unsigned char *, int *);
    int (*control)(void *, int, int, void *);
} evp;

static int evp_find(void) {
    void *library = crypto.name ? dlopen(crypto.name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 0;
    *(void **)&evp.new_context = dlsym(library, "EVP_CIPHER_CTX_new");
    *(void **)&evp.free_context = dlsym(library, "EVP_CIPHER_CTX_free");
    *(void **)&evp.cipher = dlsym(library, "EVP_aes_256_gcm");
    *(void **)&evp.begin = dlsym(library, "EVP_CipherInit_ex");
    *(void **)&evp.update = dlsym(library, "EVP_CipherUpdate");
    *(void **)&evp.end = dlsym(library, "EVP_CipherFinal_ex");
    *(void **)&evp.control = dlsym(library, "EVP_CIPHER_CTX_ctrl");
    return evp.new_context && evp.free_context && evp.cipher && evp.begin && evp.update && evp.end && evp.control;
}

enum { GET_TAG = 0x10, SET_TAG = 0x11 };    /* EVP_CTRL_AEAD_... */

static size_t signature_size(const Direction *d) {
    return 1 + (d->suite == HMAC_SHA256 ? TAG : d->suite == AES_GCM ? GCM_TAG : 0);
}

static void direction_end(Direction *d) {
    if (d->gcm) evp.free_context(d->gcm);
    explicit_bzero(d, sizeof *d);
}

static int direction_begin(Direction *d, int suite, const unsigned char *key, int sends) {
    direction_end(d);
    d->suite = suite;
    if (suite == HMAC_SHA256) hmac_key(&d->key, key);
    if (suite != AES_GCM) return 1;
    d->gcm = evp.new_context();
    return d->gcm && evp.begin(d->gcm, evp.cipher(), NULL, key, NULL, sends);
}

/* Begin the tag of the next message with what stands before its content. */
static void tag_begin(Direction *d, Running *r, const unsigned char *front, size_t size) {
    unsigned char nonce[12] = {0};
    int none;
    big(nonce + 4, d->count, 8);
    if (d->suite == HMAC_SHA256) {
        r->sha = d->key.inner;
        crypto.update(&r->sha, nonce + 4, 8);
        crypto.update(&r->sha, front, size);
    } else if (d->suite == AES_GCM) {
        evp.begin(d->gcm, NULL, NULL, NULL, nonce, -1);
        evp.update(d->gcm, NULL, &none, front, (int)size);
    }
}

/* Take a piece of the content; where it is encrypted, `to` gets the other form of it, and may be `from`. */
static void tag_take(Direction *d, Running *r, const unsigned char *from, unsigned char *to, size_t size) {
    int none;
    if (d->suite == HMAC_SHA256) {
        crypto.update(&r->sha, from, size);
    } else if (d->suite == AES_GCM) {
        for (size_t at = 0; at < size; at += PIECE)
            evp.update(d->gcm, to + at, &none, from + at, (int)(size - at < PIECE ? size - at : PIECE));
    }
}

/* Write the signature of a message that is sent. */
static void tag_write(Direction *d, Running *r, unsigned char *signature) {
    unsigned char rest[GCM_TAG];
    int none;
    signature[0] = (unsigned char)d->suite;
    if (d->suite == HMAC_SHA256) {
        hmac_end(&d->key, &r->sha, signature + 1);
    } else if (d->suite == AES_GCM) {
        evp.end(d->gcm, rest, &none);
        evp.control(d->gcm, GET_TAG, GCM_TAG, signature + 1);
    }
    d->count++;
}

/* Whether the signature of a message that came is right, in constant time. */
static int tag_holds(Direction *d, Running *r, const unsigned char *signature, size_t size) {
    unsigned char tag[TAG];
    volatile unsigned char differ = 0;
    int none;
    if (size != signature_size(d) || signature[0] != d->suite) return 0;
    if (d->suite == HMAC_SHA256) {
        hmac_end(&d->key, &r->sha, tag);
        for (int i = 0; i < TAG; i++) differ |= tag[i] ^ signature[1 + i];
    } else if (d->suite == AES_GCM) {
        memcpy(tag, signature + 1, GCM_TAG);
        differ = !evp.control(d->gcm, SET_TAG, GCM_TAG, tag) || evp.end(d->gcm, tag, &none) <= 0;
    }
    d->count += !differ;
    return !differ;
}

/* ---- what came and was not given out yet ----------------------------------------------------------------- */

typedef struct { unsigned char *bytes; size_t at, have; } Ahead;       /* ROOM bytes, of which [at, have) are new */
enum { WHOLE, LARGE, NEED, BROKEN, FORGED };

/* What lies at `at`: a whole small message, the front of a large one, too little, or nonsense. */
static int look(const Ahead *a, Sizes *s, uint64_t most) {
    size_t there = a->have - a->at;
    if (there < HEAD) return NEED;
    if (!read_head(a->bytes + a->at, s, most)) return BROKEN;
    if (s->content > INLINE) return there >= front_of(s) ? LARGE : NEED;
    return there >= front_of(s) + s->content + s->signature ? WHOLE : NEED;
}

/* Judge the whole message at `at`, decrypt it in place, and step over it. */
static int judge(Ahead *a, const Sizes *s, Direction *d) {
    unsigned char *front = a->bytes + a->at, *content = front + front_of(s), *signature = content + s->content;
    Running r;
    tag_begin(d, &r, front, front_of(s));
    tag_take(d, &r, content, content, s->content);
    if (!tag_holds(d, &r, signature, s->signature)) return FORGED;
    a->at += front_of(s) + s->content + s->signature;
    return WHOLE;
}

/* Room behind what is there, which a message that is not whole always leaves. */
static size_t make_room(Ahead *a) {
    if (a->at == a->have) {
        a->at = a->have = 0;
    } else if (ROOM - a->at < MAX_FRONT + INLINE + MAX_SIGNATURE) {
        memmove(a->bytes, a->bytes + a->at, a->have - a->at);
        a->have -= a->at;
        a->at = 0;
    }
    return ROOM - a->have;
}

#ifndef STREAM_WITHOUT_PYTHON
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0      /* macOS: SO_NOSIGPIPE is set */
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif
#ifndef MSG_MORE
#define MSG_MORE 0
#endif
#ifdef POLLRDHUP
#define HUNG_UP POLLRDHUP
#else
#define HUNG_UP POLLHUP
#endif

#ifdef __APPLE__
#define MONOTONIC CLOCK_UPTIME_RAW      /* time.monotonic() there; the other clock goes on while the machine sleeps */
#else
#define MONOTONIC CLOCK_MONOTONIC
#endif

enum { SECOND = 1000000000, FIRST_SLEEP = 10000000, SPIN = 20000, MAX_FDS = 2, STEP = 1 << 26 };
enum { BRIEF = 1 << 12, STRETCH = 1 << 22 };    /* bytes hashed with the GIL held; received before Python is asked */
enum { OK, LATE, SLOW, SIGNAL, GONE, STARVED, CROWDED };    /* how an operation on the socket ended */

typedef struct Stream {
    PyObject_HEAD
    struct Stream *next, **link;                /* in the list of all, for a forked child */
    PyObject *peer, *weak;
    int fd, family, forked, stopped, ended, sending, receiving, begun;
    int fds[MAX_FDS + 1], nfds, offered;        /* descriptors that came; whether the first is of the last message */
    int misses, skip;                           /* spins in vain of late; waits that do not spin therefore */
    double patience;
    unsigned long long most;                    /* bytes of the largest content */
    Direction out, in;
    Ahead ahead;
    unsigned char *made;                        /* PIECE + MAX_FRONT bytes to compose or encrypt in */
} Stream;

static Stream *all;                             /* changed with the GIL */
static PyObject *agent_closed, *call_timeout, *local_error, *peer_lost, *remote_error, *signature_error;

static void close_inherited(void) {             /* in a forked child: a copy would keep the connection alive */
    for (Stream *s = all; s; s = s->next) {
        if (s->fd >= 0) close(s->fd);
        while (s->nfds) close(s->fds[--s->nfds]);
        s->fd = -1;
        s->forked = s->ended = 1;
        s->sending = s->receiving = 0;
    }
}

/* ---- waiting, without the GIL ---------------------------------------------------------------------------- */

/* Monotonic ns: the deadline, when a message has taken too long, and until when to spin (0: not known yet, -1: no
   more); ns of the next sleep. */
typedef struct { int64_t end, limit, spin, sleep; } Wait;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static Wait wait_until(double deadline) {
    return (Wait){deadline < 9e9 ? (int64_t)(deadline > 0 ? deadline * 1e9 : 0) : INT64_MAX, INT64_MAX, 0, FIRST_SLEEP};
}

static int64_t limit_of(const Stream *s, uint64_t size) {
    return now() + (int64_t)((s->patience + (double)size / (1 << 20)) * 1e9);
}

/* Nanoseconds that are left, and why none are. */
static int64_t time_left(const Wait *w, int *why) {
    int64_t until = w->end < w->limit ? w->end : w->limit, left = until == INT64_MAX ? INT64_MAX : until - now();
    *why = left > 0 ? OK : w->end <= w->limit ? LATE : SLOW;
    return left;
}

/* Something came or went: the next wait is a new one. */
static void moved(Wait *w) { w->sleep = FIRST_SLEEP, w->spin = 0; }

/* Sleep until the socket may be used. Sleeps begin short and double: a signal that came between two woke nothing, and
   is seen after at most as long as this has waited. */
static int sleep_for(Stream *s, short events, Wait *w) {
    struct pollfd one = {s->fd, events, 0};
    int why;
    int64_t left = time_left(w, &why);
    if (why != OK) return why;
    if (left > w->sleep) left = w->sleep;
#ifdef __linux__
    struct timespec t = {left / SECOND, left % SECOND};
    int n = ppoll(&one, 1, &t, NULL);
#else
    int n = poll(&one, 1, left > 200000000 ? 200 : (int)(left / 1000000 + 1));     /* looks at the time again */
#endif
    if (n < 0 && errno != EINTR) return GONE;
    if (n == 0) w->sleep *= 2;      /* a signal does not count: many would make this overflow */
    return n > 0 ? OK : SIGNAL;
}

/* A spin in vain takes the core from the peer's thread: after some, fewer waits spin, down to one of 64. Those spin
   twice as long: an answer comes late while the other end sleeps as well, and stops that when this end spins. */
static void begin_spin(Stream *s, Wait *w) {
    if (w->spin) return;
    w->spin = s->skip ? -1 : now() + SPIN * (s->misses ? 2 : 1);
    s->skip -= s->skip > 0;
}

static void end_spin(Stream *s, Wait *w, int in_vain) {
    if (w->spin <= 0) return;
    s->misses = !in_vain ? 0 : s->misses < 6 ? s->misses + 1 : 6;
    s->skip = (1 << s->misses) - 1;
    w->spin = -1;
}

static int keep_fds(Stream *s, struct msghdr *m) {
    int many = m->msg_flags & MSG_CTRUNC, found = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++, found++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (s->nfds < MAX_FDS + s->offered) s->fds[s->nfds++] = fd;
            else many = !close(fd) || 1;
        }
    }
    return !many ? OK : found ? CROWDED : STARVED;
}

/* Receive what is there, at most `size` bytes; LATE when that is nothing, GONE at the end. */
static int receive_some(Stream *s, unsigned char *to, size_t size, ssize_t *count) {
    union { char space[CMSG_SPACE((MAX_FDS + 1) * sizeof(int))]; struct cmsghdr align; } control;
    struct iovec into = {to, size};
    struct msghdr m = {.msg_iov = &into, .msg_iovlen = 1};
    if (s->family == AF_UNIX) m.msg_control = &control, m.msg_controllen = sizeof control;
    do *count = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (*count < 0 && errno == EINTR);
    if (*count > 0) return m.msg_controllen || m.msg_flags & MSG_CTRUNC ? keep_fds(s, &m) : OK;
    return *count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? LATE : GONE;
}

/* Receive more into `ahead`: spin, then sleep, while nothing is there. No wait spins again after a sleep, which
   would lose a signal that came meanwhile. */
static int receive_more(Stream *s, Wait *w) {
    size_t room = make_room(&s->ahead);
    ssize_t count;
    for (int why;;) {
        why = receive_some(s, s->ahead.bytes + s->ahead.have, room, &count);
        if (count > 0) {
            s->ahead.have += (size_t)count;
            end_spin(s, w, 0);
            moved(w);
        }
        if (why != LATE) return why;
        begin_spin(s, w);
        if (now() < w->spin) {
            sched_yield();
            if (s->ended) return GONE;
            continue;
        }
        end_spin(s, w, 1);
        if ((why = sleep_for(s, POLLIN, w)) != OK) return why;
    }
}

/* Send from `*done` on; it says how far that came. */
static int push(Stream *s, const unsigned char *data, size_t size, size_t *done, Wait *w, int flags) {
    while (*done < size) {
        ssize_t n = send(s->fd, data + *done, size - *done, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
        int why = n >= 0 || errno == EINTR ? OK : errno != EAGAIN && errno != EWOULDBLOCK ? GONE
                  : w ? sleep_for(s, POLLOUT, w) : LATE;
        if (why != OK) return why;
        if (n <= 0) continue;
        *done += (size_t)n;
        if (w) moved(w);
    }
    return OK;
}

/* ---- errors and uses ------------------------------------------------------------------------------------- */

static void end_connection(Stream *s) {
    s->ended = 1;
    if (s->fd >= 0) shutdown(s->fd, SHUT_RDWR);
}

static void release(Stream *s) {
    if (s->sending || s->receiving) return;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    while (s->nfds) close(s->fds[--s->nfds]);
}

static PyObject *gone(Stream *s, int sends) {
    if (s->forked)
        return PyErr_Format(agent_closed, "the connection to %U belongs to the parent of this forked process", s->peer);
    if (s->stopped) return PyErr_Format(agent_closed, "the connection to %U was closed here", s->peer);
    return PyErr_Format(peer_lost, sends ? "%U was lost before it got the message whole"
                        : "%U was lost during the call, which may or may not have run", s->peer);
}

/* Set the error of an operation that did not end well, unless a signal's handler has. */
static void fail(Stream *s, int why, int sends) {
    if (why == SIGNAL) return;
    if (why == STARVED)
        PyErr_SetString(peer_lost, "a descriptor came and no more can be opened here: raise the limit (ulimit -n)");
    else if (why == CROWDED) PyErr_SetString(remote_error, "too many descriptors came at once");
    else if (why == LATE)
        PyErr_Format(call_timeout, sends ? "%U did not take the message in time; it did not get it whole"
                     : "no reply from %U in time; the call may or may not have run", s->peer);
    else gone(s, sends);
}

static int enter(Stream *s, int *use, int sends) {
    if (s->ended) return gone(s, sends), 0;
    if (*use) return PyErr_SetString(PyExc_RuntimeError, "another thread does that on this stream"), 0;
    return *use = 1;
}

static void leave(Stream *s, int *use) {
    *use = 0;
    if (s->ended) release(s);
}

static PyObject *wrong_sizes(PyObject *type, const char *what, const Sizes *z, uint64_t most) {
    return PyErr_Format(type, "%s: header, serializer, message id and content have (%zu, %zu, %zu, %llu) bytes, the "
                        "limits are (%d, %d, %d, %llu)", what, z->header, z->serializer, z->msgid,
                        (unsigned long long)z->content, MAX_HEADER, MAX_SERIALIZER, MAX_MSGID, (unsigned long long)most);
}

static int used_up(const Direction *d) {
    if (d->count >= MOST_MESSAGES)
        PyErr_SetString(peer_lost, "this connection has carried 2**32 messages: a new connection is needed");
    return d->count >= MOST_MESSAGES;
}

/* ---- sending --------------------------------------------------------------------------------------------- */

enum { MAX_PARTS = 1024 };
typedef struct { Py_buffer *parts; Py_ssize_t n; Sizes sizes; } Content;

static void content_end(Content *c) {
    while (c->n) PyBuffer_Release(&c->parts[--c->n]);
    PyMem_Free(c->parts);
}

/* Take one buffer, or those of a tuple. */
static int content_begin(Content *c, PyObject *given) {
    Py_ssize_t n = PyTuple_Check(given) ? PyTuple_Size(given) : 1;
    if (n > MAX_PARTS) return PyErr_SetString(local_error, "a content has too many parts"), 0;
    if (!(c->parts = PyMem_Calloc(n ? (size_t)n : 1, sizeof *c->parts))) return PyErr_NoMemory(), 0;
    for (; c->n < n; c->n++) {
        PyObject *part = PyTuple_Check(given) ? PyTuple_GetItem(given, c->n) : given;
        if (PyObject_GetBuffer(part, &c->parts[c->n], PyBUF_SIMPLE)) {
            PyErr_Clear();
            PyErr_SetString(local_error, "the message cannot be sent: its content is not bytes in one piece");
            return 0;
        }
        c->sizes.content += (uint64_t)c->parts[c->n].len;
    }
    return 1;
}

/* Push bytes; the GIL is held only while that does not wait. */
static int push_all(Stream *s, const unsigned char *data, size_t size, Wait *w, int flags) {
    size_t done = 0;
    int why = push(s, data, size, &done, NULL, flags);
    if (why == LATE) do {
        Py_BEGIN_ALLOW_THREADS
        why = push(s, data, size, &done, w, flags);
        Py_END_ALLOW_THREADS
    } while (why == SIGNAL && !PyErr_CheckSignals());
    return why;
}

/* As `push_all`, with a descriptor beside the first byte. */
static int push_carrying(Stream *s, const unsigned char *data, size_t size, int fd, Wait *w) {
    union { char space[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
    struct iovec from = {(void *)(uintptr_t)data, size};
    struct msghdr m = {.msg_iov = &from, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    for (int why;;) {
        ssize_t n = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) return push_all(s, data + n, size - (size_t)n, w, 0);
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return GONE;
        Py_BEGIN_ALLOW_THREADS
        why = sleep_for(s, POLLOUT, w);
        Py_END_ALLOW_THREADS
        if (why == SIGNAL ? PyErr_CheckSignals() : why != OK) return why;
    }
}

/* Sign a piece of a large content, then push it: the kernel and the peer carry it while the next one is signed. */
static int send_piece(Stream *s, Running *r, const unsigned char *from, size_t size, Wait *w) {
    const unsigned char *to = s->out.suite == AES_GCM ? s->made : from;
    size_t done = 0;
    int why;
    time_left(w, &why);     /* a peer that is always ready never has us sleep */
    if (why != OK) return why;
    Py_BEGIN_ALLOW_THREADS
    tag_take(&s->out, r, from, s->made, size);
    why = push(s, to, size, &done, w, MSG_MORE);
    Py_END_ALLOW_THREADS
    while (!PyErr_CheckSignals() && why == SIGNAL) {
        Py_BEGIN_ALLOW_THREADS
        why = push(s, to, size, &done, w, MSG_MORE);
        Py_END_ALLOW_THREADS
    }
    return PyErr_Occurred() ? SIGNAL : why;
}

static int send_large(Stream *s, const Content *c, size_t front, int fd, Wait *w) {
    Running r;
    tag_begin(&s->out, &r, s->made, front);
    int why = fd < 0 ? push_all(s, s->made, front, w, MSG_MORE) : push_carrying(s, s->made, front, fd, w);
    for (Py_ssize_t i = 0; i < c->n && why == OK; i++) {
        const unsigned char *from = c->parts[i].buf;
        for (size_t left = (size_t)c->parts[i].len, size; left && why == OK; left -= size, from += size) {
            size = left < PIECE ? left : PIECE;
            why = send_piece(s, &r, from, size, w);
        }
    }
    if (why != OK) return why;
    tag_write(&s->out, &r, s->made);
    return push_all(s, s->made, signature_size(&s->out), w, 0);
}

static int send_small(Stream *s, const Content *c, size_t front, int fd, Wait *w) {
    unsigned char *p = s->made + front;
    Running r;
    for (Py_ssize_t i = 0; i < c->n; i++) p = put(p, c->parts[i].buf, (size_t)c->parts[i].len);
    PyThreadState *thread = c->sizes.content > BRIEF ? PyEval_SaveThread() : NULL;
    tag_begin(&s->out, &r, s->made, front);
    tag_take(&s->out, &r, s->made + front, s->made + front, c->sizes.content);
    tag_write(&s->out, &r, p);
    if (thread) PyEval_RestoreThread(thread);
    size_t size = (size_t)(p - s->made) + signature_size(&s->out);
    return fd < 0 ? push_all(s, s->made, size, w, 0) : push_carrying(s, s->made, size, fd, w);
}

static PyObject *stream_send(PyObject *self, PyObject *args, PyObject *named) {
    static char *names[] = {"header", "serializer", "message_id", "content", "deadline", "descriptor", NULL};
    Stream *s = (Stream *)self;
    const char *header, *serializer, *msgid;
    Py_ssize_t a, b, m;
    PyObject *given;
    double deadline;
    int fd = -1, why = OK, local = 1;
    Content c = {0};
    if (!PyArg_ParseTupleAndKeywords(args, named, "y#y#y#Od|i", names, &header, &a, &serializer, &b, &msgid, &m, &given,
                                     &deadline, &fd)) return NULL;
    if (!enter(s, &s->sending, 1)) return NULL;
    if (!content_begin(&c, given)) goto done;
    Sizes z = c.sizes = (Sizes){(size_t)a, (size_t)b, (size_t)m, signature_size(&s->out), c.sizes.content, VERSION, fd >= 0, 0};
    if (too_large(&z, s->most)) {
        wrong_sizes(local_error, "the message cannot be sent", &z, s->most);
        goto done;
    }
    if (fd >= 0 && s->family != AF_UNIX) {
        PyErr_SetString(local_error, "a descriptor can be sent over a Unix socket only");
        goto done;
    }
    local = 0;
    if (used_up(&s->out)) goto done;
    Wait w = wait_until(deadline);
    w.limit = limit_of(s, z.content);
    write_head(s->made, &z);
    put(put(put(s->made + HEAD, header, z.header), serializer, z.serializer), msgid, z.msgid);
    why = (z.content <= INLINE ? send_small : send_large)(s, &c, front_of(&z), fd, &w);
    if (why != OK) fail(s, why, 1);
done:
    content_end(&c);
    if (PyErr_Occurred() && !local) end_connection(s);
    leave(s, &s->sending);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* ---- receiving ------------------------------------------------------------------------------------------- */

typedef struct { PyObject_HEAD unsigned char *bytes; size_t size; } Block;     /* a large content, writable */

static PyTypeObject *block_type;

static int block_buffer(PyObject *self, Py_buffer *view, int flags) {
    Block *b = (Block *)self;
    return PyBuffer_FillInfo(view, self, b->bytes, (Py_ssize_t)b->size, 0, flags);
}

static void block_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    free(((Block *)self)->bytes);
    PyObject_Free(self);
    Py_DECREF(type);
}

static void advise(unsigned char *bytes, size_t size) {     /* huge pages save most faults of fresh memory */
#ifdef MADV_HUGEPAGE
    uintptr_t from = ((uintptr_t)bytes + 4095) & ~(uintptr_t)4095;
    if (size > 1 << 22) madvise((void *)from, size - (from - (uintptr_t)bytes), MADV_HUGEPAGE);
#else
    (void)bytes, (void)size;
#endif
}

/* Receive the rest of a large content behind `have` bytes of it, hashing what came while more comes. Stops as if a
   signal had come, now and then: where bytes always come nothing sleeps, and a signal would not be seen. */
static int receive_rest(Stream *s, Block *b, size_t *room, size_t *have, Running *r, Wait *w) {
    int why;
    time_left(w, &why);
    if (why != OK) return why;
    for (size_t stop = *have + STRETCH; *have < b->size;) {
        if (*have >= stop) return SIGNAL;
        if (*have == *room) {                               /* what is only announced costs no memory */
            size_t more = b->size - *room < *room ? b->size : 2 * *room;
            unsigned char *larger = realloc(b->bytes, more);
            if (!larger) return errno = ENOMEM, GONE;
            advise(b->bytes = larger, more);
            *room = more;
        }
        ssize_t count;
        size_t most = *room - *have < PIECE ? *room - *have : PIECE;
        why = receive_some(s, b->bytes + *have, most, &count);
        if (why == LATE) {
            why = sleep_for(s, POLLIN, w);
        } else if (why == OK) {
            tag_take(&s->in, r, b->bytes + *have, b->bytes + *have, (size_t)count);
            *have += (size_t)count;
            moved(w);
        }
        if (why != OK) return why;
    }
    return OK;
}

static PyObject *take_large(Stream *s, const Sizes *z, Wait *w) {
    Ahead *a = &s->ahead;
    size_t front = front_of(z), have = a->have - a->at - front, room = z->content < STEP ? z->content : STEP;
    Running r;
    int why;
    Block *b = PyObject_New(Block, block_type);
    if (!b) return NULL;
    *b = (Block){b->ob_base, malloc(room), z->content};
    if (!b->bytes) return Py_DECREF(b), PyErr_NoMemory();
    advise(b->bytes, room);
    if (have > z->content) have = z->content;
    Py_BEGIN_ALLOW_THREADS
    memcpy(b->bytes, a->bytes + a->at + front, have);
    tag_begin(&s->in, &r, a->bytes + a->at, front);
    tag_take(&s->in, &r, b->bytes, b->bytes, have);
    Py_END_ALLOW_THREADS
    a->at += front + have;
    w->limit = limit_of(s, z->content);
    do {
        Py_BEGIN_ALLOW_THREADS
        why = receive_rest(s, b, &room, &have, &r, w);
        while (why == OK && a->have - a->at < z->signature) why = receive_more(s, w);
        Py_END_ALLOW_THREADS
    } while (why == SIGNAL && !PyErr_CheckSignals());
    if (why != OK) return Py_DECREF(b), fail(s, why, 0), NULL;
    a->at += z->signature;
    if (!tag_holds(&s->in, &r, a->bytes + a->at - z->signature, z->signature))
        return Py_DECREF(b), PyErr_SetString(signature_error, "the signature does not match"), NULL;
    PyObject *view = PyMemoryView_FromObject((PyObject *)b);
    Py_DECREF(b);
    return view;
}

/* Wait until a message can be taken; what `look` says, or -1 with an error set. */
static int await(Stream *s, Sizes *z, Wait *w) {
    for (int what, why;;) {
        if ((what = look(&s->ahead, z, s->most)) != NEED) return what;
        if (s->ahead.have > s->ahead.at && w->limit == INT64_MAX) w->limit = limit_of(s, 0), s->begun = 1;
        why = OK;
        Py_BEGIN_ALLOW_THREADS
        why = receive_more(s, w);
        Py_END_ALLOW_THREADS
        if (why == SIGNAL && !PyErr_CheckSignals()) continue;
        if (why == OK) continue;
        if (why != LATE && why != SIGNAL) s->begun = 1;     /* it is over in any case */
        return fail(s, why, 0), -1;
    }
}

/* Offer the descriptor of a message, in place of the one before. */
static int settle(Stream *s, int carries) {
    if (s->offered) {
        close(s->fds[0]);
        memmove(s->fds, s->fds + 1, (size_t)--s->nfds * sizeof *s->fds);
        s->offered = 0;
    }
    if (carries && !s->nfds) return PyErr_SetString(remote_error, "the descriptor of a message did not come with it"), 0;
    s->offered = carries;
    if (s->nfds > carries && s->ahead.at == s->ahead.have)
        return PyErr_SetString(remote_error, "a descriptor came with a message that has none"), 0;
    return 1;
}

static PyObject *take_small(Stream *s, const Sizes *z) {
    const char *content = (const char *)s->ahead.bytes + s->ahead.at + front_of(z);
    PyThreadState *thread = z->content > BRIEF ? PyEval_SaveThread() : NULL;
    int what = judge(&s->ahead, z, &s->in);
    if (thread) PyEval_RestoreThread(thread);
    if (what == FORGED) return PyErr_SetString(signature_error, "the signature does not match"), NULL;
    return PyBytes_FromStringAndSize(content, (Py_ssize_t)z->content);
}

static PyObject *taken(Stream *s, Wait *w) {
    unsigned char front[MAX_FRONT];
    PyObject *content;
    Sizes z;
    int what = await(s, &z, w);
    if (what < 0) return NULL;
    s->begun = 1;
    if (what == BROKEN) {
        char said[64];
        PyOS_snprintf(said, sizeof said, "a message of version %d, flags %#x", z.version, (unsigned)z.flags);
        return wrong_sizes(remote_error, said, &z, s->most);
    }
    if (used_up(&s->in)) return NULL;
    const unsigned char *p = front + HEAD;
    memcpy(front, s->ahead.bytes + s->ahead.at, front_of(&z));
    content = what == LARGE ? take_large(s, &z, w) : take_small(s, &z);
    if (!content) return NULL;
    if (((z.flags & CARRYING) || s->nfds) && !settle(s, z.flags & CARRYING)) return Py_DECREF(content), NULL;
    return Py_BuildValue("(y#y#y#N)", p, (Py_ssize_t)z.header, p + z.header, (Py_ssize_t)z.serializer,
                         p + z.header + z.serializer, (Py_ssize_t)z.msgid, content);
}

static PyObject *stream_receive(PyObject *self, PyObject *deadline) {
    Stream *s = (Stream *)self;
    double until = PyFloat_AsDouble(deadline);
    if ((until == -1.0 && PyErr_Occurred()) || !enter(s, &s->receiving, 0)) return NULL;
    Wait w = wait_until(until);
    s->begun = 0;
    PyObject *message = taken(s, &w);
    if (!message && s->begun) end_connection(s);
    leave(s, &s->receiving);
    return message;
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

static PyObject *stream_protect(PyObject *self, PyObject *args, PyObject *named) {
    static char *names[] = {"suite", "send_key", "receive_key", NULL};
    Stream *s = (Stream *)self;
    const unsigned char *out, *in;
    Py_ssize_t nout, nin;
    int suite;
    if (!PyArg_ParseTupleAndKeywords(args, named, "iy#y#", names, &suite, &out, &nout, &in, &nin)) return NULL;
    if ((suite != NONE && suite != HMAC_SHA256 && suite != AES_GCM) || (suite && (nout != KEY || nin != KEY)))
        return PyErr_Format(PyExc_ValueError, "suite %d with keys of %zd and %zd bytes cannot be used", suite, nout, nin);
    if (s->sending || s->receiving)     /* without the GIL, and perhaps in the cipher */
        return PyErr_SetString(PyExc_RuntimeError, "another thread uses this stream"), NULL;
    if (!direction_begin(&s->out, suite, out, 1) || !direction_begin(&s->in, suite, in, 0)) return PyErr_NoMemory();
    return Py_NewRef(Py_None);
}

static PyObject *stream_take_descriptor(PyObject *self, PyObject *none) {
    Stream *s = (Stream *)self;
    (void)none;
    if (!s->offered || !s->nfds) return PyLong_FromLong(-1);
    int fd = s->fds[0];
    memmove(s->fds, s->fds + 1, (size_t)--s->nfds * sizeof *s->fds);
    s->offered = 0;
    return PyLong_FromLong(fd);
}

static PyObject *stream_ready(PyObject *self, PyObject *seconds) {
    Stream *s = (Stream *)self;
    double wait = PyFloat_AsDouble(seconds);
    int why = OK;
    if (wait == -1.0 && PyErr_Occurred()) return NULL;
    if (s->ended || s->ahead.at < s->ahead.have) return Py_NewRef(Py_True);
    if (!enter(s, &s->receiving, 0)) return NULL;
    Wait w = wait_until((double)now() / 1e9 + wait);
    do {
        struct pollfd one = {s->fd, POLLIN, 0};
        if (poll(&one, 1, 0) > 0) break;
        Py_BEGIN_ALLOW_THREADS
        why = sleep_for(s, POLLIN, &w);
        Py_END_ALLOW_THREADS
    } while (why == SIGNAL && !PyErr_CheckSignals());
    leave(s, &s->receiving);
    return why == SIGNAL ? NULL : PyBool_FromLong(why == OK);
}

static PyObject *stream_idle(PyObject *self, PyObject *none) {
    Stream *s = (Stream *)self;
    char byte;
    (void)none;
    if (s->ended || s->ahead.at < s->ahead.have) return Py_NewRef(Py_False);
    ssize_t n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return PyBool_FromLong(n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

static PyObject *stream_hung_up(PyObject *self, PyObject *none) {
    Stream *s = (Stream *)self;
    struct pollfd one = {s->fd, HUNG_UP, 0};
    (void)none;
    return PyBool_FromLong(s->ended || poll(&one, 1, 0) > 0);
}

static PyObject *stream_close(PyObject *self, PyObject *none) {
    Stream *s = (Stream *)self;
    (void)none;
    s->stopped = 1;
    end_connection(s);
    release(s);
    return Py_NewRef(Py_None);
}

static PyObject *stream_fileno(PyObject *self, PyObject *none) {
    (void)none;
    return PyLong_FromLong(((Stream *)self)->fd);
}

static int stream_init(PyObject *self, PyObject *args, PyObject *named) {
    static char *names[] = {"sock", "peer", "max_content", "patience", NULL};
    Stream *s = (Stream *)self;
    PyObject *sock, *peer = NULL, *number;
    unsigned long long most = 1 << 30;
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    s->patience = 30.0;
    if (s->made) return PyErr_SetString(PyExc_TypeError, "a stream is made once"), -1;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O|UKd", names, &sock, &peer, &most, &s->patience)) return -1;
    s->made = malloc(PIECE + MAX_FRONT);
    s->ahead.bytes = malloc(ROOM);
    if (peer) Py_DECREF(s->peer), s->peer = Py_NewRef(peer);
    s->most = most;
    if (!s->made || !s->ahead.bytes) return PyErr_NoMemory(), -1;
    if (!(number = PyObject_CallMethod(sock, "detach", NULL))) return -1;
    s->fd = (int)PyLong_AsLong(number);
    Py_DECREF(number);
    if (getsockname(s->fd, (struct sockaddr *)&name, &size)) return PyErr_SetFromErrno(PyExc_OSError), -1;
    fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    int one = 1;
    setsockopt(s->fd, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#endif
    s->family = name.ss_family;
    s->ended = 0;
    s->link = &all;
    if ((s->next = all)) all->link = &s->next;
    all = s;
    return 0;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    (void)args, (void)named;
    Stream *s = (Stream *)PyType_GenericAlloc(type, 0);
    if (!s) return NULL;
    s->fd = -1, s->ended = 1;
    if (!(s->peer = PyUnicode_FromString("the peer"))) Py_CLEAR(s);
    return (PyObject *)s;
}

static void stream_dealloc(PyObject *self) {
    Stream *s = (Stream *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (s->weak) PyObject_ClearWeakRefs(self);
    if (s->link) {
        *s->link = s->next;
        if (s->next) s->next->link = s->link;
    }
    release(s);
    direction_end(&s->out);
    direction_end(&s->in);
    free(s->made);
    free(s->ahead.bytes);
    Py_XDECREF(s->peer);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"protect", (PyCFunction)(void (*)(void))stream_protect, METH_VARARGS | METH_KEYWORDS, NULL},
    {"send", (PyCFunction)(void (*)(void))stream_send, METH_VARARGS | METH_KEYWORDS, NULL},
    {"receive", stream_receive, METH_O, NULL},
    {"take_descriptor", stream_take_descriptor, METH_NOARGS, NULL},
    {"ready", stream_ready, METH_O, NULL},
    {"idle", stream_idle, METH_NOARGS, NULL},
    {"hung_up", stream_hung_up, METH_NOARGS, NULL},
    {"close", stream_close, METH_NOARGS, NULL},
    {"fileno", stream_fileno, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Stream, weak), READONLY, NULL},
    {"max_content", T_ULONGLONG, offsetof(Stream, most), 0, NULL}, {NULL, 0, 0, 0, NULL}};

static PyType_Spec stream_spec = {
    "pzc.transport._stream.Stream", sizeof(Stream), 0, Py_TPFLAGS_DEFAULT,
    (PyType_Slot[]){{Py_tp_doc, "Messages on a connected stream socket; see PlainStream."},
                    {Py_tp_new, stream_new}, {Py_tp_init, stream_init}, {Py_tp_dealloc, stream_dealloc},
                    {Py_tp_methods, methods}, {Py_tp_members, members}, {0, NULL}}};

static PyType_Spec block_spec = {
    "pzc.transport._stream.Block", sizeof(Block), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    (PyType_Slot[]){{Py_tp_dealloc, block_dealloc}, {Py_bf_getbuffer, block_buffer}, {0, NULL}}};

/* The classes of errors, out of pzc.protocol.errors beside this package. */
static int find_errors(PyObject *module) {
    static const struct { const char *name; PyObject **to; } wanted[] = {
        {"AgentClosed", &agent_closed}, {"CallTimeout", &call_timeout}, {"LocalProtocolError", &local_error},
        {"PeerLost", &peer_lost}, {"RemoteProtocolError", &remote_error}, {"SignatureError", &signature_error}};
    PyObject *own = PyModule_GetNameObject(module), *name = NULL, *errors = NULL;
    Py_ssize_t length = own ? PyUnicode_GetLength(own) - (Py_ssize_t)strlen("transport._stream") : -1;
    PyObject *package = length > 0 ? PyUnicode_Substring(own, 0, length) : NULL;
    if (package && (name = PyUnicode_FromFormat("%Uprotocol.errors", package))) errors = PyImport_Import(name);
    for (size_t i = 0; errors && i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].to = PyObject_GetAttrString(errors, wanted[i].name))) Py_CLEAR(errors);
    int found = errors != NULL;
    Py_XDECREF(own), Py_XDECREF(package), Py_XDECREF(name), Py_XDECREF(errors);
    if (!found && !PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "this module belongs to a package");
    return found;
}

static int module_exec(PyObject *module) {
    static int registered;
    if (!find_errors(module)) return -1;
    if (!registered && pthread_atfork(NULL, NULL, close_inherited)) return PyErr_NoMemory(), -1;
    registered = 1;
    crypto_find();
    if (!evp_find()) crypto.name = NULL;
    PyObject *type = PyType_FromSpec(&stream_spec);
    if (!block_type) block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    if (!type || !block_type || PyModule_AddObjectRef(module, "Stream", type)) return Py_XDECREF(type), -1;
    Py_DECREF(type);
    return PyModule_AddStringConstant(module, "CRYPTO", crypto.name ? crypto.name : "");
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_stream", NULL, 0, NULL, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__stream(void) { return PyModuleDef_Init(&definition); }
#endif
