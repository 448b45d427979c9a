static Value py_dict(void)
{
    Value made = {K_DICT, {0}};
    made.as.dict = py_new(sizeof *made.as.dict);
    return made;
}

/* The place of a key in the table: that of an entry, or a free one. */
static size_t py_seek(const Dict *dict, Value key, long long hash)
{
    size_t at = (size_t)hash * 0x9e3779b97f4a7c15ULL >> 20 & (dict->slots - 1);
    for (;; at = (at + 1) & (dict->slots - 1)) {
        const Entry *entry = dict->entries + dict->table[at] - 1;
        if (dict->table[at] == 0)
            return at;
        if (entry->held && entry->hash == hash && py_equal(entry->key, key))
            return at;
    }
}

static Entry *py_find_entry(const Dict *dict, Value key)
{
    long long hash = py_hash(key);
    size_t at = dict->slots > 0 ? dict->table[py_seek(dict, key, hash)] : 0;
    return at > 0 ? dict->entries + at - 1 : NULL;
}

static void py_rebuild(Dict *dict)
{
    size_t i, kept = 0, room = dict->count * 2 + 8;
    Entry *entries = py_new(room * sizeof *entries);
    for (i = 0; i < dict->filled; i++)
        if (dict->entries[i].held)
            entries[kept++] = dict->entries[i];
    dict->entries = entries;
    dict->filled = kept;
    dict->room = room;
    for (dict->slots = 16; dict->slots < room * 2;)
        dict->slots *= 2;
    dict->table = py_new(dict->slots * sizeof *dict->table);
    for (i = 0; i < kept; i++)
        dict->table[py_seek(dict, entries[i].key, entries[i].hash)] = i + 1;
}

static void py_put_item(Value whole, Value key, Value value)
{
    Dict *dict = whole.as.dict;
    Entry *found = py_find_entry(dict, key);
    if (found != NULL) {
        found->value = value;
        return;
    }
    if (dict->filled == dict->room)
        py_rebuild(dict);
    found = dict->entries + dict->filled++;
    found->key = key;
    found->value = value;
    found->hash = py_hash(key);
    found->held = 1;
    dict->table[py_seek(dict, key, found->hash)] = dict->filled;
    dict->count++;
}

static int py_forget(Dict *dict, Value key)
{
    Entry *found = py_find_entry(dict, key);
    if (found == NULL)
        return 0;
    found->held = 0;
    dict->count--;
    return 1;
}

static Value py_dict_item(Value whole, Value key)
{
    Entry *found = py_find_entry(whole.as.dict, key);
    Value made;
    if (found != NULL)
        return found->value;
    if (whole.as.dict->kind == COUNTER)
        return py_int(0);
    if (whole.as.dict->kind == DEFAULTS && whole.as.dict->missing.kind == K_FUNC) {
        made = py_call(whole.as.dict->missing, 0, NULL);
        py_put_item(whole, key, made);
        return made;
    }
    py_raise_worded("KeyError", key);
}

/* A dictionary of pairs: keys and values by turns. */
static Value py_dict_of(size_t count, const Value *pairs)
{
    Value made = py_dict();
    size_t i;
    for (i = 0; i < count; i += 2)
        py_put_item(made, pairs[i], pairs[i + 1]);
    return made;
}

static void py_fill_dict(Value dict, Value items)
{
    Iter *iter;
    Value item;
    if (items.kind == K_DICT) {
        size_t i;
        Dict *from = items.as.dict;
        for (i = 0; i < from->filled; i++)
            if (from->entries[i].held)
                py_put_item(dict, from->entries[i].key, from->entries[i].value);
        return;
    }
    for (iter = py_iter(items); py_next(iter, &item);) {
        const Value *pair = py_unpack(item, 2, 0);
        py_put_item(dict, pair[0], pair[1]);
    }
}

static Value py_to_dict(Value items)
{
    Value made = py_dict();
    if (items.kind != K_UNSET)
        py_fill_dict(made, items);
    return made;
}

static void py_count_all(Value counter, Value items)
{
    Iter *iter;
    Value item;
    if (items.kind == K_DICT) {
        size_t i;
        for (i = 0; i < items.as.dict->filled; i++) {
            Entry entry = items.as.dict->entries[i];
            if (entry.held)
                py_put_item(counter, entry.key, py_add(entry.value, py_dict_item(counter, entry.key)));
        }
        return;
    }
    for (iter = py_iter(items); py_next(iter, &item);)
        py_put_item(counter, item, py_add(py_dict_item(counter, item), py_int(1)));
}

static Value py_counter(Value items)
{
    Value made = py_dict();
    made.as.dict->kind = COUNTER;
    if (items.kind != K_UNSET && items.kind != K_NONE)
        py_count_all(made, items);
    return made;
}

static Value py_default_dict(Value missing, Value items)
{
    Value made = py_to_dict(items);
    made.as.dict->kind = DEFAULTS;
    made.as.dict->missing = missing;
    return made;
}

static Value py_view(Value dict, int what)
{
    Value made = {K_VIEW, {0}};
    if (dict.kind != K_DICT)
        py_raise("AttributeError", "object has no such method");
    made.as.view = py_new(sizeof *made.as.view);
    made.as.view->dict = dict.as.dict;
    made.as.view->what = what;
    return made;
}

static Value py_keys(Value dict)
{
    return py_view(dict, 'k');
}

static Value py_values(Value dict)
{
    return py_view(dict, 'v');
}

static Value py_items(Value dict)
{
    return py_view(dict, 'i');
}

static Value py_entry_part(const Entry *entry, int what)
{
    Value both[2];
    if (what != 'i')
        return what == 'k' ? entry->key : entry->value;
    both[0] = entry->key;
    both[1] = entry->value;
    return py_tuple_of(2, both);
}

/* dict.fromkeys() */
static Value py_from_keys(Value keys, Value value)
{
    Value made = py_dict(), key;
    Iter *iter;
    for (iter = py_iter(keys); py_next(iter, &key);)
        py_put_item(made, key, value);
    return made;
}
