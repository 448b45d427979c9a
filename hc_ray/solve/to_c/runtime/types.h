/* Values as Python has them. Memory is never given back: the program ends soon, and the system then takes all. */
typedef enum {
    K_UNSET, K_NONE, K_BOOL, K_INT, K_FLOAT, K_STR, K_WRITTEN, K_LIST, K_TUPLE, K_RANGE, K_DICT, K_VIEW, K_SET, K_ITER,
    K_FUNC, K_ERROR
} Kind;

typedef struct { char *bytes; size_t used, room; } Buffer;
typedef struct { const char *bytes; size_t size, length; Buffer *buffer; } Str; /* UTF-8; length in characters */
typedef struct { long long start, stop, step; } Range;

typedef struct Value {
    Kind kind;
    union {
        long long i;
        double f;
        const Str *s;
        struct Written *written;
        struct List *list; /* of a tuple too */
        const Range *range;
        struct Dict *dict;
        struct View *view;
        struct Set *set;
        struct Iter *iter;
        struct Func *func;
        const struct Error *error;
    } as;
} Value;

typedef struct Written { Value number; Value text; } Written; /* a number that is text where text is asked for */
typedef struct List { Value *items; size_t count, room; } List;
typedef struct { Value key, value; long long hash; int held; } Entry;
typedef enum { PLAIN, COUNTER, DEFAULTS } DictKind;
typedef struct Dict {
    Entry *entries;
    size_t filled, room, count;
    size_t *table, slots;
    DictKind kind;
    Value missing; /* of defaultdict: what makes a value */
} Dict;
typedef struct View { Dict *dict; int what; } View; /* 'k'eys, 'v'alues or 'i'tems */
typedef struct Set { Value *keys; long long *hashes; size_t slots, filled, count, finger; } Set;
typedef struct Iter {
    int (*next)(struct Iter *, Value *);
    Value source, function;
    struct Iter **parts;
    size_t parts_count, at, count;
    long long number;
} Iter;
typedef struct Func {
    Value (*call)(const Value *given, Value **cells);
    size_t least, most;
    Value **cells;
} Func;
typedef struct Error { const char *type; Value value; int worded; } Error;
typedef struct Handler { jmp_buf place; struct Handler *outer; Error error; } Handler;

/* What a format like ">8,.2f" says. */
typedef struct {
    const char *fill;
    size_t fill_size;
    char align, sign, type;
    int zero, group, other;
    long width, precision;
} Format;

#define UNSET ((Value){K_UNSET, {0}})
#define NOTHING ((Value){K_NONE, {0}})
