/* -1, 0 or 1; 2 where one is not a number. */
static int py_order_numbers(Value a, Value b)
{
    double x, y;
    if (a.kind == K_INT && b.kind == K_INT)
        return (a.as.i > b.as.i) - (a.as.i < b.as.i);
    if (a.kind == K_INT) {
        int order = py_order_numbers(b, a);
        return order == 2 ? 2 : -order;
    }
    x = a.as.f;
    if (b.kind == K_INT) {
        long long whole;
        if (x != x)
            return 2;
        if (x >= 9223372036854775808.0)
            return 1;
        if (x < -9223372036854775808.0)
            return -1;
        whole = (long long)x;
        if (whole != b.as.i)
            return whole < b.as.i ? -1 : 1;
        y = x - (double)whole;
        return (y > 0) - (y < 0);
    }
    y = b.as.f;
    return x != x || y != y ? 2 : (x > y) - (x < y);
}

static int py_is_number(Value value)
{
    return value.kind == K_INT || value.kind == K_FLOAT;
}

static int py_same_text(const Str *a, const Str *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

static int py_same_items(const List *a, const List *b)
{
    size_t i;
    if (a->count != b->count)
        return 0;
    for (i = 0; i < a->count; i++)
        if (!py_equal(a->items[i], b->items[i]))
            return 0;
    return 1;
}

static int py_same_entries(const Dict *a, const Dict *b)
{
    size_t i;
    if (a->count != b->count)
        return 0;
    if (a->kind == COUNTER || b->kind == COUNTER)
        py_give_up("a comparison of counters");
    for (i = 0; i < a->filled; i++) {
        const Entry *entry = &a->entries[i], *found = entry->held ? py_find_entry(b, entry->key) : NULL;
        if (entry->held && (found == NULL || !py_equal(entry->value, found->value)))
            return 0;
    }
    return 1;
}

static int py_same_members(Value a, Value b)
{
    Iter *iter;
    Value item;
    if (a.as.set->count != b.as.set->count)
        return 0;
    for (iter = py_iter(a); py_next(iter, &item);)
        if (!py_set_has(b.as.set, item))
            return 0;
    return 1;
}

static int py_equal(Value a, Value b)
{
    if (a.kind == K_WRITTEN && b.kind == K_STR)
        return py_same_text(py_text(a), b.as.s);
    if (b.kind == K_WRITTEN && a.kind == K_STR)
        return py_same_text(py_text(b), a.as.s);
    a = py_number(a);
    b = py_number(b);
    if (py_is_number(a) && py_is_number(b))
        return py_order_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return 0;
    switch (a.kind) {
    case K_NONE:
    case K_UNSET:
        return 1;
    case K_STR:
        return py_same_text(a.as.s, b.as.s);
    case K_LIST:
    case K_TUPLE:
        return py_same_items(a.as.list, b.as.list);
    case K_RANGE:
        return py_equal(py_to_list(a), py_to_list(b));
    case K_DICT:
        return py_same_entries(a.as.dict, b.as.dict);
    case K_SET:
        return py_same_members(a, b);
    case K_VIEW:
        py_give_up("a comparison of views");
    default:
        return py_same(a, b);
    }
}

/* What != gives: a number that is written as a text differs from every text, as in Python for such a type. */
static int py_unequal(Value a, Value b)
{
    if ((a.kind == K_WRITTEN && b.kind == K_STR) || (a.kind == K_STR && b.kind == K_WRITTEN))
        return 1;
    return !py_equal(a, b);
}

/* Whether both are one: only asked of None, truth values and of what is in no arithmetic. */
static int py_same(Value a, Value b)
{
    if (a.kind != b.kind)
        return 0;
    if (a.kind == K_NONE || a.kind == K_BOOL)
        return a.kind == K_NONE || a.as.i == b.as.i;
    return (const void *)a.as.list == (const void *)b.as.list;
}

static int py_less_text(const Str *a, const Str *b, int equal)
{
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order != 0 ? order < 0 : equal ? a->size <= b->size : a->size < b->size;
}

static int py_less_items(const List *a, const List *b, int equal)
{
    size_t i;
    for (i = 0; i < a->count && i < b->count; i++)
        if (!py_equal(a->items[i], b->items[i]))
            return py_less_or(a->items[i], b->items[i], equal);
    return equal ? a->count <= b->count : a->count < b->count;
}

static int py_less_or(Value a, Value b, int equal)
{
    a = py_number(a);
    b = py_number(b);
    if (py_is_number(a) && py_is_number(b)) {
        int order = py_order_numbers(a, b);
        return order == -1 || (order == 0 && equal);
    }
    if (a.kind == K_STR && b.kind == K_STR)
        return py_less_text(a.as.s, b.as.s, equal);
    if ((a.kind == K_LIST || a.kind == K_TUPLE) && a.kind == b.kind)
        return py_less_items(a.as.list, b.as.list, equal);
    if (a.kind == K_SET && b.kind == K_SET)
        return py_truth(py_is_subset(a, b)) && (equal || a.as.set->count < b.as.set->count);
    if (a.kind == K_VIEW || a.kind == K_DICT)
        py_give_up("an order of dictionaries");
    py_raise("TypeError", "'<' not supported between these");
}

static int py_less(Value a, Value b)
{
    return py_less_or(a, b, 0);
}

static int py_less_equal(Value a, Value b)
{
    return py_less_or(a, b, 1);
}

/* item in whole */
static int py_contains(Value whole, Value item)
{
    Iter *iter;
    Value one;
    if (whole.kind == K_STR)
        return py_search(whole.as.s, py_only_text(item), 0) <= whole.as.s->size;
    if (whole.kind == K_DICT)
        return py_find_entry(whole.as.dict, item) != NULL;
    if (whole.kind == K_SET)
        return py_set_has(whole.as.set, item);
    if (whole.kind == K_VIEW && whole.as.view->what == 'k')
        return py_find_entry(whole.as.view->dict, item) != NULL;
    for (iter = py_iter(whole); py_next(iter, &one);)
        if (py_equal(one, item))
            return 1;
    return 0;
}

static long long py_hash_real(double x)
{
    uint64_t bits, mantissa, prime = 2305843009213693951ULL;
    int exponent;
    memcpy(&bits, &x, sizeof bits);
    exponent = (int)(bits >> 52 & 0x7ff);
    mantissa = bits & 0xfffffffffffffULL;
    if (exponent == 0x7ff)
        return mantissa ? 0 : x > 0 ? 314159 : -314159;
    mantissa |= exponent ? 0x10000000000000ULL : 0;
    exponent = (exponent ? exponent : 1) - 1075;
    exponent = exponent >= 0 ? exponent % 61 : 60 - (-1 - exponent) % 61;
    mantissa = ((mantissa << exponent) & prime) | (exponent ? mantissa >> (61 - exponent) : 0);
    mantissa = mantissa >= prime ? mantissa - prime : mantissa;
    return x < 0 ? (mantissa == 1 ? -2 : -(long long)mantissa) : (long long)mantissa;
}

static long long py_hash_int(long long number)
{
    uint64_t hash = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    hash %= 2305843009213693951ULL;
    return number < 0 ? (hash == 1 ? -2 : -(long long)hash) : (long long)hash;
}

static long long py_hash_text(const Str *text)
{
    uint64_t hash = 14695981039346656037ULL;
    size_t i;
    for (i = 0; i < text->size; i++)
        hash = (hash ^ (unsigned char)text->bytes[i]) * 1099511628211ULL;
    return (long long)(hash >> 1);
}

static long long py_hash_tuple(const List *items)
{
    uint64_t hash = 2870177450012600261ULL;
    size_t i;
    for (i = 0; i < items->count; i++) {
        hash += (uint64_t)py_hash(items->items[i]) * 14029467366897019727ULL;
        hash = (hash << 31 | hash >> 33) * 11400714785074694791ULL;
    }
    hash += items->count ^ (2870177450012600261ULL ^ 3527539ULL);
    return hash == (uint64_t)-1 ? 1546275796 : (long long)hash;
}

/* The hash; of numbers and tuples that of CPython, since the order of sets is seen. */
static long long py_hash(Value value)
{
    value = py_number(value);
    switch (value.kind) {
    case K_NONE:
        return 271828;
    case K_INT:
        return py_hash_int(value.as.i);
    case K_FLOAT:
        return py_hash_real(value.as.f);
    case K_STR:
        return py_hash_text(value.as.s);
    case K_TUPLE:
        return py_hash_tuple(value.as.list);
    case K_LIST:
    case K_DICT:
    case K_SET:
        py_raise("TypeError", "unhashable type");
    default:
        py_give_up("the hash of such a value");
    }
}
