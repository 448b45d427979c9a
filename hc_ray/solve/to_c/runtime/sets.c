/* Sets have the order that CPython gives them: that of their table. */
static Value py_set(void)
{
    Value made = {K_SET, {0}};
    made.as.set = py_new(sizeof *made.as.set);
    py_resize_set(made.as.set, 0);
    return made;
}

/* The place of a key, or the free one where it would go. Removed ones have the kind K_ERROR; the last of them on the
   way is told. */
static size_t py_set_place(const Set *set, Value key, long long hash, size_t *removed)
{
    size_t mask = set->slots - 1, at = (size_t)hash & mask, mixed = (size_t)hash, probes;
    (void)removed; /* where a program removes nothing */
    for (;;) {
        size_t place = at;
        for (probes = at + 9 <= mask ? 9 : 0;; probes--, place++) {
            Value held = set->keys[place];
            if (held.kind == K_UNSET)
                return place;
            if (held.kind == K_ERROR && removed != NULL)
                *removed = place;
            if (held.kind != K_ERROR && set->hashes[place] == hash && py_equal(held, key))
                return place;
            if (probes == 0)
                break;
        }
        mixed >>= 5;
        at = (at * 5 + 1 + mixed) & mask;
    }
}

static void py_resize_set(Set *set, size_t least)
{
    Set old = *set;
    size_t i, at;
    for (set->slots = 8; set->slots <= least;)
        set->slots *= 2;
    set->keys = py_new(set->slots * sizeof *set->keys);
    set->hashes = py_new(set->slots * sizeof *set->hashes);
    set->filled = set->count;
    for (i = 0; i < old.slots; i++)
        if (old.keys[i].kind != K_UNSET && old.keys[i].kind != K_ERROR) {
            at = py_set_place(set, old.keys[i], old.hashes[i], NULL);
            set->keys[at] = old.keys[i];
            set->hashes[at] = old.hashes[i];
        }
}

static void py_set_add(Set *set, Value key, long long hash)
{
    size_t removed = set->slots, at = py_set_place(set, key, hash, &removed);
    if (set->keys[at].kind != K_UNSET)
        return;
    if (removed < set->slots) {
        set->keys[removed] = key;
        set->hashes[removed] = hash;
        set->count++;
        return;
    }
    set->keys[at] = key;
    set->hashes[at] = hash;
    set->count++;
    set->filled++;
    if (set->filled * 5 >= (set->slots - 1) * 3)
        py_resize_set(set, set->count > 50000 ? set->count * 2 : set->count * 4);
}

static Value py_add_item(Value set, Value key)
{
    if (set.kind != K_SET)
        py_raise("AttributeError", "object has no such method");
    py_set_add(set.as.set, key, py_hash(key));
    return NOTHING;
}

static void py_set_merge(Set *set, const Set *other)
{
    size_t i;
    if ((set->filled + other->count) * 5 >= (set->slots - 1) * 3)
        py_resize_set(set, (set->count + other->count) * 2);
    if (set->filled == 0 && set->slots == other->slots && other->filled == other->count) {
        memcpy(set->keys, other->keys, set->slots * sizeof *set->keys);
        memcpy(set->hashes, other->hashes, set->slots * sizeof *set->hashes);
        set->filled = set->count = other->count;
        return;
    }
    for (i = 0; i < other->slots; i++)
        if (other->keys[i].kind != K_UNSET && other->keys[i].kind != K_ERROR)
            py_set_add(set, other->keys[i], other->hashes[i]);
}

static void py_fill_set(Value set, Value items)
{
    Iter *iter;
    Value item;
    if (items.kind == K_SET) {
        py_set_merge(set.as.set, items.as.set);
        return;
    }
    if (items.kind == K_DICT && (set.as.set->filled + items.as.dict->count) * 5 >= (set.as.set->slots - 1) * 3)
        py_resize_set(set.as.set, (set.as.set->count + items.as.dict->count) * 2);
    for (iter = py_iter(items); py_next(iter, &item);)
        py_set_add(set.as.set, item, py_hash(item));
}

static Value py_to_set(Value items)
{
    Value made = py_set();
    if (items.kind != K_UNSET)
        py_fill_set(made, items);
    return made;
}

static Value py_set_of(size_t count, const Value *items)
{
    Value made = py_set();
    size_t i;
    for (i = 0; i < count; i++)
        py_set_add(made.as.set, items[i], py_hash(items[i]));
    return made;
}

/* A set that is written with constants only: CPython makes it twice before the program runs, and copies that. */
static Value py_set_of_constants(size_t count, const Value *items)
{
    const List *again = py_to_list(py_set_of(count, items)).as.list;
    return py_to_set(py_set_of(again->count, again->items));
}

static int py_set_has(const Set *set, Value key)
{
    return set->keys[py_set_place(set, key, py_hash(key), NULL)].kind != K_UNSET;
}

static int py_set_forget(Set *set, Value key)
{
    size_t at = py_set_place(set, key, py_hash(key), NULL);
    if (set->keys[at].kind == K_UNSET)
        return 0;
    set->keys[at].kind = K_ERROR;
    set->count--;
    return 1;
}

static void py_need_set(Value set)
{
    if (set.kind != K_SET)
        py_raise("AttributeError", "object has no such method");
}

static Value py_union(Value a, Value b)
{
    Value made;
    py_need_set(a);
    made = py_to_set(a);
    if (b.kind != K_UNSET)
        py_fill_set(made, b);
    return made;
}

static Value py_intersection(Value a, Value b)
{
    Value made = py_set(), item;
    Iter *iter;
    py_need_set(a);
    if (b.kind == K_SET && b.as.set->count > a.as.set->count) {
        item = a;
        a = b;
        b = item;
    }
    for (iter = py_iter(b); py_next(iter, &item);)
        if (py_set_has(a.as.set, item))
            py_set_add(made.as.set, item, py_hash(item));
    return made;
}

static Value py_difference(Value a, Value b)
{
    Value made, item;
    Iter *iter;
    py_need_set(a);
    if ((b.kind != K_SET && b.kind != K_DICT) || a.as.set->count / 4 > py_length(b)) {
        made = py_to_set(a);
        for (iter = py_iter(b); py_next(iter, &item);)
            py_set_forget(made.as.set, item);
        return made;
    }
    made = py_set();
    for (iter = py_iter(a); py_next(iter, &item);)
        if (!py_contains(b, item))
            py_set_add(made.as.set, item, py_hash(item));
    return made;
}

static Value py_symmetric_difference(Value a, Value b)
{
    Value made, item;
    Iter *iter;
    py_need_set(a);
    made = py_to_set(b);
    for (iter = py_iter(a); py_next(iter, &item);)
        if (!py_set_forget(made.as.set, item))
            py_set_add(made.as.set, item, py_hash(item));
    return made;
}

static Value py_is_subset(Value a, Value b)
{
    Value item;
    Iter *iter;
    py_need_set(a);
    b = b.kind == K_SET ? b : py_to_set(b);
    for (iter = py_iter(a); py_next(iter, &item);)
        if (!py_set_has(b.as.set, item))
            return py_bool(0);
    return py_bool(1);
}

static Value py_is_superset(Value a, Value b)
{
    py_need_set(a);
    return py_is_subset(b.kind == K_SET ? b : py_to_set(b), a);
}

static Value py_is_disjoint(Value a, Value b)
{
    return py_bool(py_length(py_intersection(a, b)) == 0);
}

static Value py_discard(Value set, Value key)
{
    py_need_set(set);
    py_set_forget(set.as.set, key);
    return NOTHING;
}

static Value py_set_pop(Set *set)
{
    size_t at;
    if (set->count == 0)
        py_raise("KeyError", "pop from an empty set");
    for (at = set->finger & (set->slots - 1); set->keys[at].kind == K_UNSET || set->keys[at].kind == K_ERROR;)
        at = (at + 1) & (set->slots - 1);
    set->finger = at + 1;
    set->count--;
    {
        Value key = set->keys[at];
        set->keys[at].kind = K_ERROR;
        return key;
    }
}
