static List *py_need_list(Value list)
{
    if (list.kind != K_LIST)
        py_raise("AttributeError", "object has no such method");
    return list.as.list;
}

static Value py_list_append(Value list, Value item)
{
    py_need_list(list);
    py_append(list, item);
    return NOTHING;
}

static Value py_list_extend(Value list, Value items)
{
    py_need_list(list);
    py_extend(list, items);
    return NOTHING;
}

static Value py_insert(Value list, Value index, Value item)
{
    List *held = py_need_list(list);
    long long at = py_index_of(index), count = (long long)held->count;
    at = at < 0 ? at + count : at;
    at = at < 0 ? 0 : at > count ? count : at;
    py_append(list, item);
    memmove(held->items + at + 1, held->items + at, (size_t)(count - at) * sizeof *held->items);
    held->items[at] = item;
    return NOTHING;
}

static Value py_pop(Value whole, Value key, Value otherwise)
{
    Value item;
    size_t at;
    (void)otherwise; /* where a program has no dictionary */
    if (whole.kind == K_SET && key.kind == K_UNSET)
        return py_set_pop(whole.as.set);
    if (whole.kind == K_DICT && key.kind != K_UNSET) {
        Entry *found = py_find_entry(whole.as.dict, key);
        if (found == NULL && otherwise.kind == K_UNSET)
            py_raise_worded("KeyError", key);
        item = found == NULL ? otherwise : found->value;
        py_forget(whole.as.dict, key);
        return item;
    }
    if (py_need_list(whole)->count == 0)
        py_raise_worded("IndexError", py_str("pop from empty list"));
    at = py_place(key.kind == K_UNSET ? py_int(-1) : key, whole.as.list->count, "pop");
    item = whole.as.list->items[at];
    py_remove_at(whole.as.list, at, 1);
    return item;
}

static Value py_remove(Value whole, Value item)
{
    size_t at;
    if (whole.kind == K_SET) {
        if (!py_set_forget(whole.as.set, item))
            py_raise_worded("KeyError", item);
        return NOTHING;
    }
    for (at = 0; at < py_need_list(whole)->count; at++)
        if (py_equal(whole.as.list->items[at], item)) {
            py_remove_at(whole.as.list, at, 1);
            return NOTHING;
        }
    py_raise_worded("ValueError", py_str("list.remove(x): x not in list"));
}

static Value py_reverse(Value list)
{
    List *held = py_need_list(list);
    size_t i;
    for (i = 0; i < held->count / 2; i++) {
        Value item = held->items[i];
        held->items[i] = held->items[held->count - 1 - i];
        held->items[held->count - 1 - i] = item;
    }
    return NOTHING;
}

static Value py_copy_dict(Value dict)
{
    Value made = py_to_dict(dict);
    made.as.dict->kind = dict.as.dict->kind;
    made.as.dict->missing = dict.as.dict->missing;
    return made;
}

static Value py_copy(Value whole)
{
    if (whole.kind == K_SET)
        return py_to_set(whole);
    if (whole.kind == K_DICT)
        return py_copy_dict(whole);
    py_need_list(whole);
    return py_to_list(whole);
}

static Value py_clear(Value whole)
{
    if (whole.kind == K_SET)
        *whole.as.set = *py_set().as.set;
    else if (whole.kind == K_DICT) {
        whole.as.dict->filled = whole.as.dict->room = whole.as.dict->count = whole.as.dict->slots = 0;
    } else
        py_need_list(whole)->count = 0;
    return NOTHING;
}

static Dict *py_need_dict(Value dict)
{
    if (dict.kind != K_DICT)
        py_raise("AttributeError", "object has no such method");
    return dict.as.dict;
}

static Value py_get(Value dict, Value key, Value otherwise)
{
    Entry *found = py_find_entry(py_need_dict(dict), key);
    return found != NULL ? found->value : otherwise.kind == K_UNSET ? NOTHING : otherwise;
}

static Value py_set_default(Value dict, Value key, Value otherwise)
{
    Entry *found = py_find_entry(py_need_dict(dict), key);
    if (found != NULL)
        return found->value;
    otherwise = otherwise.kind == K_UNSET ? NOTHING : otherwise;
    py_put_item(dict, key, otherwise);
    return otherwise;
}

static Value py_update(Value whole, Value items)
{
    if (whole.kind == K_SET)
        py_fill_set(whole, items);
    else if (py_need_dict(whole)->kind == COUNTER)
        py_count_all(whole, items);
    else
        py_fill_dict(whole, items);
    return NOTHING;
}

static Value py_pop_item(Value dict)
{
    Dict *held = py_need_dict(dict);
    size_t at = held->filled;
    Value item;
    while (at > 0 && !held->entries[at - 1].held)
        at--;
    if (at == 0)
        py_raise("KeyError", "popitem(): dictionary is empty");
    item = py_entry_part(&held->entries[at - 1], 'i');
    py_forget(held, held->entries[at - 1].key);
    return item;
}

static Value py_second_of(const Value *given, Value **cells)
{
    (void)cells;
    return py_item(given[0], py_int(1));
}

/* Counter.most_common: the highest counts first, equal ones in their order. */
static Value py_most_common(Value counter, Value count)
{
    Value all;
    if (py_need_dict(counter)->kind != COUNTER)
        py_raise("AttributeError", "object has no such method");
    all = py_sorted(py_items(counter), py_func(py_second_of, 1, 1, NULL, 0), py_bool(1));
    if (count.kind == K_UNSET || count.kind == K_NONE)
        return all;
    return py_slice(all, NOTHING, py_index_of(count) < 0 ? py_int(0) : count, NOTHING);
}

static Value py_elements(Value counter)
{
    Value all = py_list();
    Dict *dict = py_need_dict(counter);
    size_t i;
    long long left;
    for (i = 0; i < dict->filled; i++)
        for (left = dict->entries[i].held ? py_index_of(dict->entries[i].value) : 0; left > 0; left--)
            py_append(all, dict->entries[i].key);
    return py_to_iter(all);
}
