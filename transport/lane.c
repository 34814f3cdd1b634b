/* The compiled lane: one end of one connected Unix stream socket that carries messages of five frames.

   It makes and judges the very bytes of protocol/session.py in the layout of transport/framing.py: requests and
   replies of two agents that know each other, suite HMAC-SHA256 or none, content inline. Python gets a body
   whose tag held, or hears that the next message is unusual: then nothing of it was consumed, and `unread`
   hands it to the Python session. Whoever waits holds no GIL.

   ids        a stamp is 48 bits of Unix ms, 42 of a counter that Python shares with us, 32 of an epoch
   a request  carries its stamp as message id; the counters of one connection rise
   a reply    echoes the id and carries a stamp of its own in the header */

#include "hmac.h"
#include <errno.h>
#include <time.h>

enum { MSGID = 45, OWN = 32, KEY_ID = 8, HEAD = 20, PLAIN = 1 };
enum { INLINE = 1 << 16, MAX_NAME = 512, MAX_SERIALIZER = 32, ROOM = 1 << 17, REQUEST = 1, REPLY = 2 };
enum { MAX_FRONT = HEAD + MAX_NAME + OWN + 1 + MAX_SERIALIZER + MSGID + 1 + MAX_NAME };
enum { OK, NEED, UNUSUAL, LATE, UNSENT, SIGNAL, GONE, BROKEN, CLOSED, FORKED, STRAY };

/* ---- ids ------------------------------------------------------------------------------------------------ */

static void hex(unsigned char *to, uint64_t value, int digits) {
    for (int i = digits - 1; i >= 0; i--, value >>= 4) to[i] = (unsigned char)"0123456789abcdef"[value & 15];
}

static void write_own(unsigned char to[OWN], uint64_t ms, uint64_t counter, uint32_t epoch) {
    hex(to, ms << 16 | 0x8000 | counter >> 30, 16);
    hex(to + 16, 0x80000000u | (counter & 0x3fffffff), 8);
    hex(to + 24, epoch, 8);
}

static const struct { unsigned char at, from, size; } groups[] = {{9, 0, 8}, {18, 8, 4}, {23, 12, 4}, {28, 16, 4}, {33, 20, 12}};

static void write_urn(unsigned char to[MSGID], const unsigned char own[OWN]) {
    memcpy(to, "urn:uuid:", 9);
    for (int i = 0; i < 5; i++) memcpy(to + groups[i].at, own + groups[i].from, groups[i].size);
    to[17] = to[22] = to[27] = to[32] = '-';
}

/* ---- judging what others say ---------------------------------------------------------------------------- */

static int equal(const unsigned char *a, const unsigned char *b, size_t n) {  /* in constant time */
    volatile unsigned char differ = 0;
    for (size_t i = 0; i < n; i++) differ |= a[i] ^ b[i];
    return !differ;
}

static int unhex(const unsigned char *from, int digits, uint64_t *value) {
    uint64_t read = 0;
    for (int i = 0; i < digits; i++) {
        int c = from[i], digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return -1;
        read = read << 4 | (uint64_t)digit;
    }
    *value = read;
    return 0;
}

static int read_own(const unsigned char from[OWN], uint64_t *ms, uint64_t *counter, uint64_t *epoch) {
    uint64_t high, low;
    if (unhex(from, 16, &high) || unhex(from + 16, 8, &low) || unhex(from + 24, 8, epoch)) return -1;
    if ((high & 0xf000) != 0x8000 || low >> 30 != 2) return -1;
    *ms = high >> 16;
    *counter = (high & 0xfff) << 30 | (low & 0x3fffffff);
    return 0;
}

static int read_urn(const unsigned char from[MSGID], unsigned char own[OWN]) {
    if (memcmp(from, "urn:uuid:", 9) || from[17] != '-' || from[22] != '-' || from[27] != '-' || from[32] != '-')
        return -1;
    for (int i = 0; i < 5; i++) memcpy(own + groups[i].from, from + groups[i].at, groups[i].size);
    return 0;
}

/* ---- messages ------------------------------------------------------------------------------------------- */

typedef struct {                /* what is constant in one direction */
    int kind;
    uint32_t epoch;             /* of the sender */
    size_t nheader, nrest, nbefore, nbehind;
    unsigned char header[MAX_NAME], rest[MAX_NAME];             /* rest: key id, without a key the receiver */
    unsigned char before[32], behind[KEY_ID + MAX_NAME];        /* under the tag: before and behind the content's size */
} Way;

typedef struct {
    Way out, in;
    Hmac key;
    int asks;
    size_t ntag, nserializer;   /* no tag without a key */
    unsigned char serializer[MAX_SERIALIZER];
    int64_t last;               /* counter of the request that came last, -1 before */
    size_t at, have;            /* what was received and not judged yet: [at, have) of `bytes` */
    unsigned char *bytes;       /* ROOM of them */
} Core;

typedef struct __attribute__((packed)) {        /* see framing.py; little-endian */
    uint16_t kind, nheader;
    uint8_t nserializer, nmsgid;
    uint16_t nsignature;
    uint32_t nbody;
    uint64_t extra;
} Head;

typedef struct { const unsigned char *body, *msgid; size_t nbody; uint64_t ms, counter; } Message;

static size_t whole_header(const Way *w) { return w->nheader + (w->kind == REPLY ? OWN + 1 : 0); }

static void way_begin(Core *c, Way *w, int kind, const void *header, size_t nheader, const void *receiver,
                      size_t nreceiver, const void *key_id, uint32_t epoch) {
    size_t nkey = c->ntag ? KEY_ID : 0;
    w->kind = kind;
    w->epoch = epoch;
    memcpy(w->header, header, w->nheader = nheader);
    w->nrest = c->ntag ? KEY_ID : nreceiver;
    memcpy(w->rest, c->ntag ? key_id : receiver, w->nrest);
    memcpy(w->before, "PZC01", 5);
    w->before[5] = (unsigned char)kind;
    w->before[6] = c->ntag != 0;
    big(w->before + 7, nkey, 2);
    big(w->before + 9, nreceiver, 2);
    big(w->before + 11, whole_header(w), 4);
    big(w->before + 15, c->nserializer, 4);
    big(w->before + 19, MSGID, 4);
    w->nbefore = 23;
    memcpy(w->behind, key_id, nkey);
    memcpy(w->behind + nkey, receiver, nreceiver);
    w->nbehind = nkey + nreceiver;
}

/* The tag; `frames` are header, serializer and message id, one after the other. */
static void seal(const Core *c, const Way *w, const unsigned char *frames, size_t nframes, const void *body,
                 size_t nbody, unsigned char tag[TAG]) {
    unsigned char front[32 + 8 + KEY_ID + MAX_NAME + MAX_FRONT], *p = put(front, w->before, w->nbefore);
    big(p, nbody, 8);
    p = put(put(p + 8, w->behind, w->nbehind), frames, nframes);
    Sha state = c->key.inner;
    crypto.update(&state, front, (size_t)(p - front));
    crypto.update(&state, body, nbody);
    hmac_end(&c->key, &state, tag);
}

/* Write a message; `msgid` is read by the end that answers and written by the one that asks. Returns its size. */
static size_t compose(const Core *c, uint64_t ms, uint64_t counter, unsigned char msgid[MSGID], const void *body,
                      size_t nbody, unsigned char *to) {
    const Way *w = &c->out;
    size_t nheader = whole_header(w), nsignature = 1 + c->ntag + w->nrest;
    unsigned char own[OWN], *frames = to + HEAD, *p = put(frames, w->header, w->nheader);
    write_own(own, ms, counter, w->epoch);
    if (w->kind == REQUEST) write_urn(msgid, own);
    else p = put(put(p, own, OWN), "+", 1);
    p = put(put(p, c->serializer, c->nserializer), msgid, MSGID);
    size_t nframes = (size_t)(p - frames);
    *p++ = c->ntag != 0;
    if (c->ntag) seal(c, w, frames, nframes, body, nbody, p);
    p = put(put(p + c->ntag, w->rest, w->nrest), body, nbody);
    Head head = {PLAIN, (uint16_t)nheader, (uint8_t)c->nserializer, MSGID, (uint16_t)nsignature, (uint32_t)nbody, 0};
    memcpy(to, &head, HEAD);
    return (size_t)(p - to);
}

/* Judge the message that begins at `at`, and step over it when it is OK. NEED: it is not there whole.
   A tag or counter that does not hold is unusual, too: Python finds it again, and tells the sender. */
static int judge(Core *c, Message *found) {
    const Way *w = &c->in;
    const unsigned char *start = c->bytes + c->at, *header = start + HEAD;
    size_t nheader = whole_header(w), nsignature = 1 + c->ntag + w->nrest, there = c->have - c->at;
    size_t nframes = nheader + c->nserializer + MSGID;
    unsigned char own[OWN], tag[TAG];
    uint64_t epoch;
    Head head;
    if (there < HEAD) return NEED;
    memcpy(&head, start, HEAD);
    size_t nbody = head.nbody, size = HEAD + nframes + nsignature + nbody;
    if (head.kind != PLAIN || head.extra || nbody > INLINE || head.nheader != nheader
        || head.nserializer != c->nserializer || head.nmsgid != MSGID || head.nsignature != nsignature) return UNUSUAL;
    if (there < size) return NEED;
    const unsigned char *signature = header + nframes, *body = signature + nsignature;
    Message m = {body, signature - MSGID, nbody, 0, 0};
    if (memcmp(header, w->header, w->nheader) || memcmp(header + nheader, c->serializer, c->nserializer)
        || signature[0] != (c->ntag != 0) || memcmp(signature + 1 + c->ntag, w->rest, w->nrest)) return UNUSUAL;
    if (read_urn(m.msgid, own) || read_own(own, &m.ms, &m.counter, &epoch)) return UNUSUAL;
    if (w->kind == REPLY && read_own(header + w->nheader, &m.ms, &m.counter, &epoch)) return UNUSUAL;
    if (epoch != w->epoch || (w->kind == REPLY && header[nheader - 1] != '+')) return UNUSUAL;
    if (c->ntag) {
        seal(c, w, header, nframes, body, nbody, tag);
        if (!equal(tag, signature + 1, TAG)) return UNUSUAL;
    }
    if (w->kind == REQUEST) {
        if ((int64_t)m.counter <= c->last) return UNUSUAL;
        c->last = (int64_t)m.counter;
    }
    c->at += size;
    *found = m;
    return OK;
}

/* Room to receive into, behind what is there; a message that is not whole always leaves some. */
static size_t make_room(Core *c) {
    if (c->at == c->have) {
        c->at = c->have = 0;
    } else if (c->at && ROOM - c->at < MAX_FRONT + INLINE) {
        memmove(c->bytes, c->bytes + c->at, c->have - c->at);
        c->have -= c->at;
        c->at = 0;
    }
    return ROOM - c->have;
}

#ifndef LANE_WITHOUT_PYTHON
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the socket ----------------------------------------------------------------------------------------- */

enum { MAX_FDS = 8, MAX_TAKEN = 256, SECOND = 1000000000, LOOK = 10000000 };

typedef struct {
    PyObject_HEAD
    PyObject *count;                        /* gives the next counter of this epoch */
    int fd, inside, closed, nfds;           /* our own number of the socket; operations under way; what came */
    int fds[MAX_FDS];
    long spin;                              /* us */
    int misses, skip;                       /* spins in vain of late; waits that do not spin therefore */
    unsigned born;
    int sending, receiving;                 /* whether a thread does */
    atomic_int over;                        /* why nothing can be received any more */
    unsigned char asked[MSGID + 1];         /* the request that `ask` made last */
    unsigned char *made;                    /* ROOM bytes to compose in */
    Core core;
} Lane;

typedef struct { int64_t end, spin_end; int looked, spins, skips; } Wait;      /* end: monotonic ns, -1 for ever, 0 not at all */

static unsigned forks;
static void forked(void) { forks++; }

static int64_t now(clockid_t clock) {       /* ns */
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static Wait wait_of(double seconds) {
    int forever = !(seconds >= 0 && seconds < 1e9);
    return (Wait){seconds == 0 ? 0 : forever ? -1 : now(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9), 0, 0, 0, 0};
}

/* Sleep until the socket may be used. The first sleep is short: a signal that came while we spun woke nothing. */
static int sleep_for(Lane *l, short events, Wait *w) {
    struct pollfd one = {l->fd, events, 0};
    int64_t left = w->end < 0 ? INT64_MAX : w->end - now(CLOCK_MONOTONIC);
    int first = !w->looked && left > LOOK;
    if (left <= 0) return LATE;
    if (first) left = LOOK;
    struct timespec t = {left / SECOND, left % SECOND};
    int n = ppoll(&one, 1, left == INT64_MAX ? NULL : &t, NULL);
    w->looked |= first && n == 0;
    return n > 0 ? OK : n < 0 ? (errno == EINTR ? SIGNAL : GONE) : first ? SIGNAL : LATE;
}

static void keep_fds(Lane *l, struct msghdr *m) {
    int lost = m->msg_flags & MSG_CTRUNC;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (l->nfds < MAX_FDS) l->fds[l->nfds++] = fd;
            else lost = !close(fd) || 1;
        }
    }
    if (lost) l->over = STRAY;
}

/* A spin in vain takes the core from whoever is waited for: after some, fewer waits spin, down to one of 64. Those
   spin twice as long: while the other end sleeps, too, its answer comes late, and stops that when we spin. */
static void spun(Lane *l, Wait *w, int in_vain) {
    if (!w->spins) return;
    l->misses = !in_vain ? 0 : l->misses < 6 ? l->misses + 1 : 6;
    l->skip = (1 << l->misses) - 1;
    w->spins = 0;
}

/* Receive what is there; spin, then sleep, while nothing is. */
static int receive(Lane *l, Wait *w) {
    Core *c = &l->core;
    for (;;) {
        size_t room = make_room(c);
        union { char space[CMSG_SPACE(MAX_FDS * sizeof(int))]; struct cmsghdr align; } control;
        struct iovec into = {c->bytes + c->have, room < INLINE ? room : INLINE};
        struct msghdr m = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n > 0) {
            if (m.msg_controllen || m.msg_flags & MSG_CTRUNC) keep_fds(l, &m);
            c->have += (size_t)n;
            spun(l, w, w->spins && now(CLOCK_MONOTONIC) > w->spin_end);
            return l->over;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) return GONE;
        if (w->end == 0) return LATE;
        int64_t time = now(CLOCK_MONOTONIC);
        if (w->spin_end == 0) {
            w->spins = !l->skip;
            w->spin_end = l->skip ? time : time + l->spin * (l->misses ? 2000 : 1000);
            l->skip -= l->skip > 0;
        }
        int yields = time < w->spin_end;
        if (!yields) spun(l, w, 1);
        int why = yields ? sched_yield() : sleep_for(l, POLLIN, w);
        if (why != OK) return why;
    }
}

/* The next message, without the GIL. */
static int next_message(Lane *l, Wait *w, Message *found) {
    for (;;) {
        int why = l->over ? l->over : judge(&l->core, found);
        if (why == OK && l->nfds && l->core.at == l->core.have) why = STRAY;
        if (why > FORKED) l->over = why;
        if (why != NEED || (why = receive(l, w)) != OK) return why;
    }
}

/* The next reply to `msgid`, or message without one; who sends others without end keeps nobody from the time or a signal. */
static int next_wanted(Lane *l, Wait *w, Message *found, const unsigned char *msgid) {
    int why;
    while ((why = next_message(l, w, found)) == OK && msgid && memcmp(found->msgid, msgid, MSGID))
        if (++w->skips % 256 == 0) return w->end >= 0 && now(CLOCK_MONOTONIC) >= w->end ? LATE : SIGNAL;
    return why;
}

/* Send all of it, without the GIL; `done` keeps how far it is. */
static int push(Lane *l, const unsigned char *data, size_t size, size_t *done, Wait *w) {
    while (*done < size) {
        ssize_t n = send(l->fd, data + *done, size - *done, MSG_DONTWAIT | MSG_NOSIGNAL);
        int why = n >= 0 || errno == EINTR ? OK : errno != EAGAIN ? GONE : w->end == 0 ? LATE : sleep_for(l, POLLOUT, w);
        if (why != OK) return why;
        if (n > 0) *done += (size_t)n;
    }
    return OK;
}

/* ---- Python --------------------------------------------------------------------------------------------- */

static PyObject *lane_error;     /* a type of its own, which no handler of a signal raises */

static PyObject *fail(Lane *l, int why) {
    static const char *const said[] = {
        [LATE] = "late", [UNSENT] = "unsent", [GONE] = "gone", [BROKEN] = "broken", [CLOSED] = "closed",
        [FORKED] = "forked", [STRAY] = "descriptor"};
    if (why == SIGNAL) return NULL;         /* what its handler raised is set */
    if (l->closed && why != FORKED) why = CLOSED;
    if (why > FORKED) shutdown(l->fd, SHUT_RDWR);
    PyErr_SetString(lane_error, said[why]);
    return NULL;
}

static void let_go(Lane *l) {
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    while (l->nfds) close(l->fds[--l->nfds]);
}

static int begin(Lane *l, int *direction) {
    int why = l->born != forks ? FORKED : l->closed ? CLOSED : l->over;
    if (why) return fail(l, why), -1;
    if (*direction) return PyErr_SetString(PyExc_RuntimeError, "another thread does that on this lane"), -1;
    l->inside += *direction = 1;
    return 0;
}

static void end(Lane *l, int *direction) {
    *direction = 0;
    if (!--l->inside && l->closed) let_go(l);
}

/* Up to `limit` messages; only replies to `msgid` when it is given. Their number; 0: unusual; -1: an error is set. */
static int gather(Lane *l, Wait *w, Message *found, int limit, const unsigned char *msgid) {
    int n = 0, why;
    do {
        Py_BEGIN_ALLOW_THREADS
        why = next_wanted(l, w, found, msgid);
        if (why == OK)      /* what is wrong behind the first is found again when its turn comes */
            for (n = 1; n < limit && !l->over && !l->nfds && judge(&l->core, &found[n]) == OK;) n++;
        Py_END_ALLOW_THREADS
    } while (why == SIGNAL && !PyErr_CheckSignals());
    if (why != OK && why != UNUSUAL) return fail(l, why), -1;
    return n;
}

static PyObject *told(const Message *m) {
    return Py_BuildValue("(y#s#KK)", m->body, (Py_ssize_t)m->nbody, m->msgid, (Py_ssize_t)MSGID,
                         (unsigned long long)m->ms, (unsigned long long)m->counter);
}

static PyObject *lane_take(PyObject *self, PyObject *args) {
    Lane *l = (Lane *)self;
    Message found[MAX_TAKEN];
    double timeout;
    int limit = 64;
    if (!PyArg_ParseTuple(args, "d|i", &timeout, &limit) || begin(l, &l->receiving)) return NULL;
    Wait w = wait_of(timeout);
    int n = gather(l, &w, found, limit > MAX_TAKEN ? MAX_TAKEN : limit, NULL);
    PyObject *each, *result = n > 0 ? PyList_New(n) : n ? NULL : Py_NewRef(Py_None);
    for (int i = 0; i < n && result; i++)
        if (!(each = told(&found[i])) || PyList_SetItem(result, i, each)) Py_CLEAR(result);
    end(l, &l->receiving);
    return result;
}

/* Push, without the GIL where that waits. Without a wait what the kernel did not take is `left`, where that is wanted;
   else what was begun (`before`: bytes of it) and cannot be ended is the end. */
static int push_all(Lane *l, size_t size, Wait *w, size_t before, size_t *left) {
    size_t done = 0;
    Wait none = {0};
    int why = push(l, l->made, size, &done, &none);
    if (why == LATE && left && w->end == 0) return *left = size - done, 0;
    if (why == LATE) do {
        Py_BEGIN_ALLOW_THREADS
        why = push(l, l->made, size, &done, w);
        Py_END_ALLOW_THREADS
    } while (why == SIGNAL && !PyErr_CheckSignals());
    if (why == OK) return 0;
    if (!done && !before && (why == LATE || why == SIGNAL)) return fail(l, why == LATE ? UNSENT : SIGNAL), -1;
    shutdown(l->fd, SHUT_RDWR);
    l->over = BROKEN;
    return fail(l, why == SIGNAL ? SIGNAL : BROKEN), -1;
}

/* Compose one message behind what is made already: a reply to `id`, or a request whose id is left in `msgid`. */
static int add(Lane *l, const char *body, Py_ssize_t size, const char *id, Py_ssize_t nid, unsigned char *msgid, size_t *filled) {
    if (size > INLINE || (id && nid != MSGID))
        return PyErr_Format(PyExc_ValueError, "a body of %zd bytes or an id of %zd", size, nid), -1;
    PyObject *next = PyObject_CallNoArgs(l->count);
    if (!next) return -1;
    uint64_t counter = PyLong_AsUnsignedLongLong(next);
    Py_DECREF(next);
    if (PyErr_Occurred()) return -1;
    if (counter >> 42) return PyErr_SetString(PyExc_OverflowError, "no counter is left in this epoch"), -1;
    if (id) memcpy(msgid, id, MSGID);
    uint64_t ms = (uint64_t)now(CLOCK_REALTIME) / 1000000;
    *filled += compose(&l->core, ms, counter, msgid, body, (size_t)size, l->made + *filled);
    return 0;
}

static PyObject *lane_ask(PyObject *self, PyObject *args) {
    Lane *l = (Lane *)self;
    const char *body;
    Py_ssize_t size;
    double timeout, look;
    size_t filled = 0;
    int n = -1, bad = 0;
    Message m;
    if (!l->core.asks) return PyErr_SetString(PyExc_TypeError, "this end answers"), NULL;
    if (!PyArg_ParseTuple(args, "z#dd", &body, &size, &timeout, &look)) return NULL;
    if (body) l->asked[0] = 0;
    if (begin(l, &l->receiving)) return NULL;
    Wait w = wait_of(timeout);
    if (body && !(bad = begin(l, &l->sending))) {
        bad = add(l, body, size, NULL, 0, l->asked, &filled) || push_all(l, filled, &w, 0, NULL);
        end(l, &l->sending);
    }
    w = wait_of(look);
    if (!bad) n = gather(l, &w, &m, 1, l->asked);
    PyObject *result = n > 0 ? told(&m) : n ? NULL : Py_NewRef(Py_None);
    end(l, &l->receiving);
    return result;
}

/* Many messages in as few writes as possible: bodies of requests, or (body, message id) of replies. */
static PyObject *lane_post(PyObject *self, PyObject *args) {
    Lane *l = (Lane *)self;
    PyObject *given;
    double timeout;
    size_t filled = 0, before = 0, left = 0;
    if (!PyArg_ParseTuple(args, "Od", &given, &timeout) || begin(l, &l->sending)) return NULL;
    Wait w = wait_of(timeout);
    PyObject *ids = NULL, *made, *result = NULL;
    int bad = !(given = PySequence_Tuple(given)) || !(ids = PyList_New(PyTuple_Size(given)));
    for (Py_ssize_t i = 0; !bad && i < PyTuple_Size(given); i++) {
        PyObject *each = PyTuple_GetItem(given, i);
        char *body, *id = NULL;
        unsigned char msgid[MSGID];
        Py_ssize_t size, nid = 0;
        bad = l->core.asks ? PyBytes_AsStringAndSize(each, &body, &size)
              : !PyTuple_Check(each) ? (PyErr_SetString(PyExc_TypeError, "not a tuple of body and message id"), -1)
              : !PyArg_ParseTuple(each, "y#s#", &body, &size, &id, &nid);
        if (!bad && filled + MAX_FRONT + (size_t)size > ROOM) {
            bad = push_all(l, filled, &w, before, NULL);
            before += filled;
            filled = 0;
        }
        if (bad || (bad = add(l, body, size, id, nid, msgid, &filled))) break;
        bad = !(made = PyUnicode_FromStringAndSize((const char *)msgid, MSGID)) || PyList_SetItem(ids, i, made);
    }
    if (!bad && filled) bad = push_all(l, filled, &w, before, &left);
    if (!bad) result = Py_BuildValue("(Oy#)", ids, l->made + filled - left, (Py_ssize_t)left);
    end(l, &l->sending);
    Py_XDECREF(given);
    Py_XDECREF(ids);
    return result;
}

/* What was received and not judged, with the descriptors that came: the caller's from now on. */
static PyObject *lane_unread(PyObject *self, PyObject *none) {
    Lane *l = (Lane *)self;
    Core *c = &l->core;
    (void)none;
    if (begin(l, &l->receiving)) return NULL;
    PyObject *fds = PyList_New(l->nfds), *result = NULL, *fd;
    for (int i = 0; fds && i < l->nfds; i++)
        if (!(fd = PyLong_FromLong(l->fds[i])) || PyList_SetItem(fds, i, fd)) Py_CLEAR(fds);
    if (fds) result = Py_BuildValue("(y#N)", c->bytes + c->at, (Py_ssize_t)(c->have - c->at), fds);
    if (result) c->at = c->have = (size_t)(l->nfds = 0);
    end(l, &l->receiving);
    return result;
}

/* Take back what the caller received too far. */
static PyObject *lane_feed(PyObject *self, PyObject *args) {
    Lane *l = (Lane *)self;
    Core *c = &l->core;
    const char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#", &data, &size) || begin(l, &l->receiving)) return NULL;
    int right = c->at == c->have && size <= ROOM;
    if (right) memcpy(c->bytes, data, c->have = (size_t)size), c->at = 0;
    else PyErr_SetString(PyExc_ValueError, "something is unread, or this is too much");
    end(l, &l->receiving);
    return right ? Py_NewRef(Py_None) : NULL;
}

static PyObject *lane_close(PyObject *self, PyObject *none) {
    Lane *l = (Lane *)self;
    (void)none;
    if (l->fd >= 0 && l->born == forks) shutdown(l->fd, SHUT_RDWR);
    l->closed = 1;
    if (!l->inside || l->born != forks) let_go(l);
    Py_RETURN_NONE;
}

/* ---- the type ------------------------------------------------------------------------------------------- */

typedef struct { const char *header, *address; Py_ssize_t nheader, naddress; unsigned int epoch; } Party;

static int party(PyObject *from, Party *p) {
    if (!PyArg_ParseTuple(from, "y#y#I", &p->header, &p->nheader, &p->address, &p->naddress, &p->epoch)) return -1;
    if (p->nheader <= MAX_NAME && p->naddress <= MAX_NAME) return 0;
    return PyErr_Format(PyExc_ValueError, "a header or address of over %d bytes", MAX_NAME), -1;
}

static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *names[] = {"fd", "asks", "key", "key_id", "serializer", "own", "peer", "count", "last", NULL};
    const char *key, *key_id, *serializer;
    Py_ssize_t nkey, nkey_id, nserializer;
    PyObject *own_, *peer_, *count_;
    Party own, peer;
    int fd, asks;
    long long last = -1;
    if (!PyArg_ParseTupleAndKeywords(args, named, "ipy#y#y#O!O!O|L", names, &fd, &asks, &key, &nkey, &key_id, &nkey_id,
                                     &serializer, &nserializer, &PyTuple_Type, &own_, &PyTuple_Type, &peer_, &count_, &last)
        || party(own_, &own) || party(peer_, &peer)) return NULL;
    if ((nkey && (nkey != KEY || nkey_id != KEY_ID || !crypto.name)) || nserializer > MAX_SERIALIZER)
        return PyErr_SetString(PyExc_ValueError, "not a key, key id and serializer of a lane"), NULL;
    Lane *l = (Lane *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!l) return NULL;
    Core *c = &l->core;
    l->fd = -1;
    l->count = Py_NewRef(count_);
    l->spin = 50;
    l->born = forks;
    c->asks = asks;
    c->last = last;
    c->ntag = nkey ? TAG : 0;
    memcpy(c->serializer, serializer, c->nserializer = (size_t)nserializer);
    if (nkey) hmac_key(&c->key, (const unsigned char *)key);
    way_begin(c, &c->out, asks ? REQUEST : REPLY, own.header, (size_t)own.nheader, peer.address, (size_t)peer.naddress,
              key_id, own.epoch);
    way_begin(c, &c->in, asks ? REPLY : REQUEST, peer.header, (size_t)peer.nheader, own.address, (size_t)own.naddress,
              key_id, peer.epoch);
    if (!(l->made = malloc(ROOM)) || !(c->bytes = malloc(ROOM))) PyErr_NoMemory();
    else if ((l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) PyErr_SetFromErrno(PyExc_OSError);
    if (l->fd < 0) Py_CLEAR(l);
    return (PyObject *)l;
}

static void lane_dealloc(PyObject *self) {
    Lane *l = (Lane *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(l->count);
    let_go(l);
    free(l->made);
    free(l->core.bytes);
    explicit_bzero(&l->core.key, sizeof l->core.key);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMemberDef lane_members[] = {
    {"msgid", T_STRING_INPLACE, offsetof(Lane, asked), READONLY, "Id of the request that `ask` made last; empty when it made none."},
    {"at", T_PYSSIZET, offsetof(Lane, core.at), READONLY, "Judged."}, {"have", T_PYSSIZET, offsetof(Lane, core.have), READONLY, "Received."},
    {"last", T_LONGLONG, offsetof(Lane, core.last), 0, "Counter of the request that came last."},
    {"spin", T_LONG, offsetof(Lane, spin), 0, "Microseconds to look for a message, yielding the core, before sleeping."},
    {0}};
static PyMethodDef lane_methods[] = {
    {"ask", lane_ask, METH_VARARGS, "Send a request, or None to wait on; its reply as of `take`, None before the unusual."},
    {"post", lane_post, METH_VARARGS, "Send many requests, or replies as (body, message id); their ids, and what did not go."},
    {"take", lane_take, METH_VARARGS, "All that is there as (body, id, ms, counter), verified; None before the unusual."},
    {"unread", lane_unread, METH_NOARGS, "Hand over what was received and not judged."},
    {"feed", lane_feed, METH_VARARGS, "Take back what was received too far."},
    {"close", lane_close, METH_NOARGS, "End the connection, from any thread."},
    {0}};
static PyType_Slot lane_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)lane_new}, {Py_tp_dealloc, (void *)(uintptr_t)lane_dealloc},
    {Py_tp_methods, lane_methods}, {Py_tp_members, lane_members}, {0, NULL}};
static PyType_Spec lane_spec = {
    "pzc.transport._lane.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT, lane_slots};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_lane", "The compiled lane.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__lane(void) {
    Py_XDECREF(PyImport_ImportModule("_hashlib"));      /* brings the libcrypto of this Python, where it has one */
    PyErr_Clear();
    crypto_find();
    pthread_atfork(NULL, NULL, forked);
    PyObject *m = PyModule_Create(&module), *type = m ? PyType_FromSpec(&lane_spec) : NULL;
    lane_error = PyErr_NewException("pzc.transport._lane.LaneError", NULL, NULL);
    int bad = !type || PyModule_AddObjectRef(m, "Lane", type) || PyModule_AddObjectRef(m, "LaneError", lane_error)
              || PyModule_AddIntConstant(m, "LIMIT", INLINE)
              || PyModule_AddStringConstant(m, "CRYPTO", crypto.name ? crypto.name : "");
    Py_XDECREF(type);
    if (bad) Py_CLEAR(m);
    return m;
}
#endif
