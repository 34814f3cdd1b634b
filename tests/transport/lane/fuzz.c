/* Feeds the judging half of transport/lane.c with messages that were changed at random, in pieces of random sizes.

   fuzz INPUTS SECONDS SEED: stops after so many inputs or seconds, and prints how many there were. It aborts when
   a lane hands out what its peer did not say, in another order, or not all of what nobody changed; built with
   sanitizers it ends as well when a byte is read that was not received: what lies behind those is poisoned. */
#define LANE_WITHOUT_PYTHON
#include "../../../transport/lane.c"
#include <stdio.h>
#include <stdlib.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { MOST = 6, SPACE = 6 * ROOM };
#define MUST(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); abort(); } } while (0)

typedef struct { size_t at, size, nbody; } Said;

static uint64_t state;
static Core ends[2][2];     /* [signed][asks] */
static unsigned char sent[SPACE], changed[SPACE + ROOM];
static unsigned long handed_out;

static uint64_t chance(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

static void begin(int with_key, int asks) {
    static const char names[2][24] = {"PZC01+answerer++", "PZC01+asker++3+"}, addresses[2][16] = {"answerer/0f0f", "asker/0f0f"};
    static const unsigned char key[KEY] = "thirty-two bytes of a secret key";
    Core *c = &ends[with_key][asks];
    memset(c, 0, sizeof *c);
    MUST(c->bytes = malloc(ROOM));
    c->asks = asks;
    c->last = -1;
    c->ntag = with_key ? TAG : 0;
    memcpy(c->serializer, "pickle", c->nserializer = 6);
    hmac_key(&c->key, key);
    way_begin(c, &c->out, asks ? REQUEST : REPLY, names[asks], strlen(names[asks]), addresses[!asks],
              strlen(addresses[!asks]), "0a1b2c3d", 1 + (uint32_t)asks);
    way_begin(c, &c->in, asks ? REPLY : REQUEST, names[!asks], strlen(names[!asks]), addresses[asks],
              strlen(addresses[asks]), "0a1b2c3d", 1 + (uint32_t)!asks);
}

/* Some of what the end that does not ask, or asks, might say. */
static int say(const Core *c, Said *said, size_t *size) {
    static uint64_t counter;
    int n = 1 + (int)chance(MOST);
    *size = 0;
    for (int i = 0; i < n; i++) {
        unsigned char body[INLINE], msgid[MSGID], own[OWN];
        size_t nbody = chance(500) ? chance(chance(8) ? 60 : 700) : chance(INLINE + 1);
        for (size_t k = 0; k < nbody && k < 64; k++) body[k] = (unsigned char)chance(256);
        if (nbody > 64) memset(body + 64, (int)chance(256), nbody - 64);
        write_own(own, chance(1ull << 48), chance(1ull << 42), 2);
        write_urn(msgid, own);
        said[i] = (Said){*size, 0, nbody};
        said[i].size = compose(c, chance(1ull << 48), ++counter, msgid, body, nbody, sent + *size);
        *size += said[i].size;
    }
    return n;
}

static size_t change(const Said *said, int n, size_t size) {
    static const unsigned char edges[] = {0, 1, 2, 8, 16, 44, 45, 46, 127, 128, 254, 255};
    memcpy(changed, sent, size);
    for (uint64_t times = 1 + chance(3); times; times--) {
        size_t at = chance(2) ? chance(size) : said[chance((uint64_t)n)].at + chance(HEAD), some = chance(chance(2) ? 8 : 200);
        const Said *other = &said[chance((uint64_t)n)];
        if (at >= size) at = size ? size - 1 : 0;
        if (at + some > size) some = size - at;
        switch (chance(9 + (chance(40) == 0))) {
        case 0: changed[at] ^= (unsigned char)(1 << chance(8)); break;
        case 1: changed[at] = edges[chance(sizeof edges)]; break;
        case 2: for (size_t k = 0; k < some; k++) changed[at + k] = (unsigned char)chance(256); break;
        case 3: memmove(changed + at, changed + at + some, size - at - some); size -= some; break;
        case 4: if (size + some < SPACE) { memmove(changed + at + some, changed + at, size - at); size += some; } break;
        case 5: if (size + other->size < SPACE) { memcpy(changed + size, sent + other->at, other->size); size += other->size; } break;
        case 6: size = at; break;
        case 7: memmove(changed + at, sent + other->at, some < other->size ? some : other->size); break;
        case 8: if (at + 4 <= size) { uint32_t length = (uint32_t)chance(1ull << chance(33)); memcpy(changed + at, &length, 4); } break;
        default: memset(changed + size, (int)chance(256), SPACE - size); size = size < SPACE ? SPACE : size;
        }
    }
    return size;
}

/* Whether the message found lies in `sent` as it was made, behind the one before. */
static int was_said(const Core *c, const Message *m, const Said *said, int n, int *next) {
    for (int i = *next; i < n; i++) {
        const unsigned char *body = sent + said[i].at + said[i].size - said[i].nbody;
        const unsigned char *msgid = body - (1 + c->ntag + c->in.nrest) - MSGID;
        if (m->nbody != said[i].nbody || memcmp(m->body, body, m->nbody) || memcmp(m->msgid, msgid, MSGID)) continue;
        *next = c->asks ? 0 : i + 1;    /* whether a reply came twice is known to who waits for it */
        return 1;
    }
    return 0;
}

static void one_input(int with_key, int asks) {
    Core *c = &ends[with_key][asks];
    Said said[MOST];
    size_t size, at = 0;
    int n = say(&ends[with_key][!asks], said, &size), next = 0, found = 0, why = NEED, whole = chance(5) == 0;
    const unsigned char *data = sent;
    if (!whole) {
        size = change(said, n, size);
        data = changed;
    }
    while (at < size && why == NEED) {
        ASAN_UNPOISON_MEMORY_REGION(c->bytes, ROOM);
        size_t room = make_room(c), piece = 1 + chance(chance(4) ? INLINE : 40);
        MUST(c->at <= c->have && c->have <= ROOM && room > 0);
        if (piece > size - at) piece = size - at;
        if (piece > room) piece = room;
        memcpy(c->bytes + c->have, data + at, piece);
        c->have += piece;
        at += piece;
        ASAN_POISON_MEMORY_REGION(c->bytes + c->have, ROOM - c->have);
        for (Message m; (why = judge(c, &m)) == OK; found++, handed_out++) {
            MUST(m.nbody <= INLINE && m.body >= c->bytes && m.body + m.nbody <= c->bytes + c->at && c->at <= c->have);
            if (with_key) MUST(was_said(c, &m, said, n, &next));
        }
        MUST(why == NEED || why == UNUSUAL);
    }
    if (whole) MUST(found == n && c->at == c->have);
    ASAN_UNPOISON_MEMORY_REGION(c->bytes, ROOM);
    c->at = c->have = 0;
    if (!with_key) c->last = -1;        /* anybody can say any counter there */
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    unsigned long long inputs = strtoull(argv[1], NULL, 10), i = 0;
    time_t end = time(NULL) + atol(argv[2]);
    state = 0x9e3779b97f4a7c15u ^ strtoull(argv[3], NULL, 10);
    crypto_find();
    MUST(crypto.name);
    for (int k = 0; k < 4; k++) begin(k / 2, k % 2);
    for (; i < inputs && (i % 1024 || time(NULL) < end); i++) one_input(chance(3) != 0, (int)chance(2));
    printf("%llu inputs, %lu messages handed out\n", i, handed_out);
    return 0;
}
