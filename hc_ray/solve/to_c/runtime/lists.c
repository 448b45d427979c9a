static Value py_list(void)
{
    Value made = {K_LIST, {0}};
    made.as.list = py_new(sizeof *made.as.list);
    return made;
}

static void py_append(Value list, Value item)
{
    List *held = list.as.list;
    if (held->count == held->room) {
        size_t room = held->room * 2 + 4;
        Value *items = py_new(room * sizeof *items);
        if (held->count > 0)
            memcpy(items, held->items, held->count * sizeof *items);
        held->items = items;
        held->room = room;
    }
    held->items[held->count++] = item;
}

static void py_extend(Value list, Value items)
{
    Iter *iter;
    Value item;
    size_t i, count;
    if (items.kind == K_LIST || items.kind == K_TUPLE) {
        count = items.as.list->count;
        for (i = 0; i < count; i++)
            py_append(list, items.as.list->items[i]);
        return;
    }
    for (iter = py_iter(items); py_next(iter, &item);)
        py_append(list, item);
}

static Value py_list_of(size_t count, const Value *items)
{
    Value made = py_list();
    size_t i;
    for (i = 0; i < count; i++)
        py_append(made, items[i]);
    return made;
}

static Value py_tuple_of(size_t count, const Value *items)
{
    Value made = py_list_of(count, items);
    made.kind = K_TUPLE;
    return made;
}

static Value py_to_list(Value items)
{
    Value made = py_list();
    if (items.kind != K_UNSET)
        py_extend(made, items);
    return made;
}

static Value py_to_tuple(Value items)
{
    Value made = items;
    if (items.kind == K_TUPLE)
        return items;
    made = py_to_list(items);
    made.kind = K_TUPLE;
    return made;
}

/* An index that may count from the end; an error where there is no such place. */
static size_t py_place(Value index, size_t count, const char *what)
{
    long long at = py_index_of(index);
    Buffer message = {NULL, 0, 0};
    if (at < 0)
        at += (long long)count;
    if (at < 0 || at >= (long long)count) {
        py_put(&message, what, strlen(what));
        py_put(&message, " index out of range", 19);
        py_raise_worded("IndexError", py_built(&message));
    }
    return (size_t)at;
}

static Value py_item(Value whole, Value index)
{
    size_t at;
    switch (whole.kind) {
    case K_LIST:
    case K_TUPLE:
        return whole.as.list->items[py_place(index, whole.as.list->count, whole.kind == K_LIST ? "list" : "tuple")];
    case K_STR:
        at = py_offset(whole.as.s, py_place(index, whole.as.s->length, "string"));
        return py_str_copy(whole.as.s->bytes + at, py_character_size(whole.as.s, at));
    case K_RANGE:
        at = py_place(index, py_length(whole), "range object");
        return py_int(whole.as.range->start + (long long)at * whole.as.range->step);
    case K_DICT:
        return py_dict_item(whole, index);
    default:
        py_raise("TypeError", "object is not subscriptable");
    }
}

static void py_set_item(Value whole, Value index, Value item)
{
    if (whole.kind == K_LIST)
        whole.as.list->items[py_place(index, whole.as.list->count, "list assignment")] = item;
    else if (whole.kind == K_DICT)
        py_put_item(whole, index, item);
    else
        py_raise("TypeError", "object does not support item assignment");
}

static void py_delete_item(Value whole, Value index)
{
    if (whole.kind == K_LIST) {
        size_t at = py_place(index, whole.as.list->count, "list assignment");
        py_remove_at(whole.as.list, at, 1);
    } else if (whole.kind == K_DICT) {
        if (!py_forget(whole.as.dict, index))
            py_raise_worded("KeyError", index);
    } else
        py_raise("TypeError", "object does not support item deletion");
}

static void py_remove_at(List *list, size_t at, size_t count)
{
    if (at + count < list->count)
        memmove(list->items + at, list->items + at + count, (list->count - at - count) * sizeof *list->items);
    list->count -= count;
}

/* Where a slice begins and ends, and in what steps. */
static size_t py_slice_places(Value start, Value stop, Value step, size_t count, long long *first, long long *by)
{
    long long size = (long long)count, from, to;
    *by = step.kind == K_NONE ? 1 : py_index_of(step);
    if (*by == 0)
        py_raise("ValueError", "slice step cannot be zero");
    if (*by < -9000000000000000000LL)
        py_give_up("an integer of more than 64 bits");
    from = start.kind == K_NONE ? (*by > 0 ? 0 : size - 1) : py_index_of(start);
    to = stop.kind == K_NONE ? (*by > 0 ? size : -1) : py_index_of(stop);
    if (start.kind != K_NONE) {
        from = from < 0 ? from + size : from;
        from = from < 0 ? (*by > 0 ? 0 : -1) : from >= size ? (*by > 0 ? size : size - 1) : from;
    }
    if (stop.kind != K_NONE) {
        to = to < 0 ? to + size : to;
        to = to < 0 ? (*by > 0 ? 0 : -1) : to >= size ? (*by > 0 ? size : size - 1) : to;
    }
    *first = from;
    if (*by > 0)
        return from < to ? (size_t)((to - from - 1) / *by + 1) : 0;
    return from > to ? (size_t)((from - to - 1) / -*by + 1) : 0;
}

static Value py_slice_text(const Str *text, long long at, long long by, size_t count)
{
    Buffer buffer = {NULL, 0, 0};
    size_t from;
    if (count == 0)
        return py_str("");
    if (by == 1) {
        from = py_offset(text, (size_t)at);
        return py_str_copy(text->bytes + from, py_offset(text, (size_t)at + count) - from);
    }
    for (; count > 0; count--, at += by)
        py_put(&buffer, text->bytes + at, 1);
    return py_built(&buffer);
}

static Value py_slice(Value whole, Value start, Value stop, Value step)
{
    Value made;
    long long at, by;
    size_t count;
    if (whole.kind != K_STR && whole.kind != K_LIST && whole.kind != K_TUPLE) {
        if (whole.kind == K_RANGE)
            py_give_up("a slice of a range");
        py_raise("TypeError", "object is not subscriptable");
    }
    count = py_slice_places(start, stop, step, py_length(whole), &at, &by);
    if (whole.kind == K_STR && whole.as.s->size != whole.as.s->length && by != 1)
        return py_join(py_str(""), py_slice(py_to_list(whole), start, stop, step));
    if (whole.kind == K_STR)
        return py_slice_text(whole.as.s, at, by, count);
    made = py_list();
    for (; count > 0; count--, at += by)
        py_append(made, whole.as.list->items[at]);
    made.kind = whole.kind;
    return made;
}

/* list[start:stop] = items */
static void py_set_slice(Value list, Value start, Value stop, Value items)
{
    long long at, by;
    size_t count;
    Value all = py_list();
    if (list.kind != K_LIST)
        py_raise("TypeError", "object does not support slice assignment");
    items = py_to_list(items);
    count = py_slice_places(start, stop, NOTHING, list.as.list->count, &at, &by);
    py_extend(all, py_slice(list, NOTHING, py_int(at), NOTHING));
    py_extend(all, items);
    py_extend(all, py_slice(list, py_int(at + (long long)count), NOTHING, NOTHING));
    *list.as.list = *all.as.list;
}

/* What an operator with = leaves where it changes its left side. */
static Value py_in_place(Value left, Value result)
{
    if (left.kind == K_SET && result.kind == K_SET)
        *left.as.set = *result.as.set;
    else if (left.kind == K_LIST && result.kind == K_LIST)
        *left.as.list = *result.as.list;
    else
        return result;
    return left;
}

/* The values for several targets; before and after a starred one if `starred`. */
static const Value *py_unpack(Value items, size_t count, int starred)
{
    items = py_to_list(items);
    if (items.as.list->count < count)
        py_raise("ValueError", "not enough values to unpack");
    if (items.as.list->count > count && !starred)
        py_raise("ValueError", "too many values to unpack");
    return items.as.list->items;
}

/* What a method that is called of its type needs. */
static Value py_typed_as(Value value, Kind kind)
{
    if (value.kind != kind)
        py_raise("TypeError", "a method needs a value of its own type");
    return value;
}
