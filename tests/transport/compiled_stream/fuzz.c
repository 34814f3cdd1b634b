/* Feeds the parsing and verifying half of transport/stream.c with messages that were changed at random, in pieces.

   fuzz INPUTS SECONDS SEED: stops after so many inputs or seconds, and prints how many there were. It aborts when a
   binding gives out anything but what its peer sent, in that order, or not all of what nobody changed; with sanitizers
   it ends as well when a byte is read that was not received: what follows those is poisoned. */
#define STREAM_WITHOUT_PYTHON
#include "../../../transport/stream.c"
#include <stdio.h>
#include <time.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { MOST = 6, SPACE = MOST * (MAX_FRONT + INLINE + MAX_SIGNATURE) };
#define MUST(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); abort(); } } while (0)

typedef struct { size_t at, size, front, content; } Sent;

static const int suites[] = {NONE, HMAC_SHA256, AES_GCM};
static const unsigned char key[KEY] = "thirty-two bytes of a secret key";
static uint64_t state;
static unsigned char sent[SPACE], clear[SPACE], changed[SPACE + ROOM];
static Direction out[3], in[3];
static Ahead ahead;

static uint64_t chance(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

/* Some messages as one end may send them; `clear` has them as the other end must give them out. */
static int compose(Direction *d, Sent *messages, size_t *size) {
    int n = 1 + (int)chance(MOST);
    *size = 0;
    for (int i = 0; i < n; i++) {
        uint64_t content = chance(500) ? chance(chance(8) ? 60 : 700) : chance(INLINE + 1);
        Sizes z = {chance(80), chance(12), chance(50), signature_size(d), content, VERSION, (int)chance(2), 0};
        unsigned char *start = sent + *size, *body = start + front_of(&z);
        Running r;
        write_head(start, &z);
        for (unsigned char *p = start + HEAD; p < body + content; p++) *p = (unsigned char)(p < body + 64 ? chance(256) : 7);
        put(clear + *size, start, front_of(&z) + content);
        tag_begin(d, &r, start, front_of(&z));
        tag_take(d, &r, body, body, content);
        tag_write(d, &r, body + content);
        messages[i] = (Sent){*size, front_of(&z) + content + z.signature, front_of(&z), content};
        *size += messages[i].size;
    }
    return n;
}

static size_t change(const Sent *messages, int n, size_t size) {
    static const unsigned char edges[] = {0, 1, 2, 3, 8, 16, 32, 33, 45, 127, 128, 255};
    memcpy(changed, sent, size);
    for (uint64_t times = 1 + chance(3); times; times--) {
        const Sent *other = &messages[chance((uint64_t)n)];
        size_t at = chance(2) ? chance(size) : messages[chance((uint64_t)n)].at + chance(HEAD), some = chance(chance(2) ? 8 : 200);
        if (at >= size) at = size ? size - 1 : 0;
        if (at + some > size) some = size - at;
        switch (chance(8)) {
        case 0: changed[at] ^= (unsigned char)(1 << chance(8)); break;
        case 1: changed[at] = edges[chance(sizeof edges)]; break;
        case 2: for (size_t k = 0; k < some; k++) changed[at + k] = (unsigned char)chance(256); break;
        case 3: memmove(changed + at, changed + at + some, size - at - some); size -= some; break;
        case 4: if (size + other->size < SPACE) memcpy(changed + size, sent + other->at, other->size), size += other->size; break;
        case 5: size = at; break;
        case 6: memmove(changed + at, sent + other->at, some < other->size ? some : other->size); break;
        default: if (at + 8 <= size) write_little(changed + at, chance(1ull << chance(63)), (int)(1 + chance(8)));
        }
    }
    return size;
}

static void one_input(int which) {
    Direction *to = &out[which], *from = &in[which];
    Sent messages[MOST];
    size_t size, at = 0;
    to->count = from->count = chance(1 << 20);
    int n = compose(to, messages, &size), found = 0, what = NEED, whole = chance(5) == 0;
    if (!whole) size = change(messages, n, size);
    while (at < size && what == NEED) {
        ASAN_UNPOISON_MEMORY_REGION(ahead.bytes, ROOM);
        size_t room = make_room(&ahead), piece = 1 + chance(chance(4) ? INLINE : 40);
        MUST(ahead.at <= ahead.have && ahead.have <= ROOM && room > 0);
        if (piece > size - at) piece = size - at;
        if (piece > room) piece = room;
        memcpy(ahead.bytes + ahead.have, (whole ? sent : changed) + at, piece);
        ahead.have += piece;
        at += piece;
        ASAN_POISON_MEMORY_REGION(ahead.bytes + ahead.have, ROOM - ahead.have);
        Sizes z;
        while ((what = look(&ahead, &z, 1 << 30)) == WHOLE) {
            const unsigned char *start = ahead.bytes + ahead.at;
            if (judge(&ahead, &z, from) == FORGED) {
                what = FORGED;
                break;
            }
            const Sent *m = &messages[found++];
            if (which) MUST(found <= n && !memcmp(start, clear + m->at, m->front + m->content));
            if (found == MOST) found--;     /* without keys anybody can repeat anything */
        }
        MUST(ahead.at <= ahead.have && (what != LARGE || z.content > INLINE));
    }
    if (whole) MUST(ahead.at == ahead.have && from->count == to->count);
    ASAN_UNPOISON_MEMORY_REGION(ahead.bytes, ROOM);
    ahead.at = ahead.have = 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    unsigned long long inputs = strtoull(argv[1], NULL, 10), i = 0;
    time_t end = time(NULL) + atol(argv[2]);
    state = 0x9e3779b97f4a7c15u ^ strtoull(argv[3], NULL, 10);
    crypto_find();
    MUST(crypto.name && evp_find() && (ahead.bytes = malloc(ROOM)));
    for (int k = 0; k < 3; k++) MUST(direction_begin(&out[k], suites[k], key, 1) && direction_begin(&in[k], suites[k], key, 0));
    for (; i < inputs && (i % 1024 || time(NULL) < end); i++) one_input((int)chance(3));
    printf("%llu inputs\n", i);
    return 0;
}
