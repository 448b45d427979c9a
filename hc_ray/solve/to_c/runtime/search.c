static Value py_replace(Value whole, Value old, Value new, Value times)
{
    const Str *text = py_text(whole), *part = py_only_text(old);
    long long most = times.kind == K_UNSET ? -1 : py_index_of(times);
    Buffer buffer = {NULL, 0, 0};
    size_t from = 0, at;
    py_only_text(new);
    while (most != 0) {
        at = py_search(text, part, from);
        if (at > text->size)
            break;
        py_put(&buffer, text->bytes + from, at - from);
        py_put_str(&buffer, new);
        from = at + part->size;
        most--;
        if (part->size == 0) {
            size_t size = at < text->size ? py_character_size(text, at) : 0;
            if (size == 0)
                break;
            py_put(&buffer, text->bytes + at, size);
            from = at + size;
        }
    }
    py_put(&buffer, text->bytes + from, text->size - from);
    return py_built(&buffer);
}

/* The character at which a part is found between two places, or -1; the last one if `last`. */
static long long py_find_at(Value whole, Value part, Value start, Value stop, int last)
{
    Value text = py_str_value(py_text(whole)), none = NOTHING;
    const Str *wanted = py_only_text(part), *held;
    long long from, by;
    size_t at, found;
    from = start.kind == K_UNSET || start.kind == K_NONE ? 0 : py_index_of(start);
    if (from > (long long)text.as.s->length)
        return -1;
    text = py_slice(text, start.kind == K_UNSET ? none : start, stop.kind == K_UNSET ? none : stop, none);
    py_slice_places(py_int(from), none, none, py_length(py_str_value(py_text(whole))), &from, &by);
    held = text.as.s;
    found = at = py_search(held, wanted, 0);
    while (last && at <= held->size) {
        found = at;
        if (wanted->size == 0) {
            found = held->size;
            break;
        }
        at = py_search(held, wanted, at + 1);
    }
    return found > held->size ? -1 : from + (long long)py_characters(held->bytes, found);
}

static Value py_find(Value whole, Value part, Value start, Value stop)
{
    return py_int(py_find_at(whole, part, start, stop, 0));
}

static Value py_find_last(Value whole, Value part, Value start, Value stop)
{
    return py_int(py_find_at(whole, part, start, stop, 1));
}

static Value py_found(long long at)
{
    if (at < 0)
        py_raise_worded("ValueError", py_str("substring not found"));
    return py_int(at);
}

static Value py_index_last(Value whole, Value part, Value start, Value stop)
{
    return py_found(py_find_at(whole, part, start, stop, 1));
}

static Value py_index(Value whole, Value item, Value start, Value stop)
{
    long long at = 0, by;
    size_t left;
    if (whole.kind != K_LIST && whole.kind != K_TUPLE)
        return py_found(py_find_at(whole, item, start, stop, 0));
    left = py_slice_places(start.kind == K_UNSET ? NOTHING : start, stop.kind == K_UNSET ? NOTHING : stop, NOTHING,
                           whole.as.list->count, &at, &by);
    for (; left > 0; left--, at++)
        if (py_equal(whole.as.list->items[at], item))
            return py_int(at);
    if (whole.kind == K_TUPLE)
        py_raise("ValueError", "item is not in tuple");
    py_raise_worded("ValueError", py_add(py_repr(item), py_str(" is not in list")));
}

static Value py_count(Value whole, Value item, Value start, Value stop)
{
    const Str *wanted, *text;
    long long count = 0;
    size_t at;
    if (whole.kind == K_LIST || whole.kind == K_TUPLE) {
        for (at = 0; at < whole.as.list->count; at++)
            count += py_equal(whole.as.list->items[at], item);
        return py_int(count);
    }
    whole = py_str_value(py_text(whole));
    wanted = py_only_text(item);
    if (start.kind != K_UNSET) {
        if (start.kind != K_NONE && py_index_of(start) > (long long)whole.as.s->length)
            return py_int(0);
        whole = py_slice(whole, start, stop.kind == K_UNSET ? NOTHING : stop, NOTHING);
    }
    text = whole.as.s;
    if (wanted->size == 0)
        return py_int((long long)text->length + 1);
    for (at = py_search(text, wanted, 0); at <= text->size; at = py_search(text, wanted, at + wanted->size))
        count++;
    return py_int(count);
}

/* Whether a text begins, or ends, with a part or one of several. */
static int py_has_end(const Str *text, Value part, int end)
{
    const Str *wanted;
    if (part.kind == K_TUPLE) {
        size_t i;
        for (i = 0; i < part.as.list->count; i++)
            if (py_has_end(text, part.as.list->items[i], end))
                return 1;
        return 0;
    }
    wanted = py_only_text(part);
    return wanted->size <= text->size
        && memcmp(text->bytes + (end ? text->size - wanted->size : 0), wanted->bytes, wanted->size) == 0;
}

/* The same between two places. */
static Value py_has_end_between(Value text, Value part, Value start, Value stop, int end)
{
    text = py_str_value(py_text(text));
    if (start.kind != K_UNSET) {
        if (start.kind != K_NONE && py_index_of(start) > (long long)text.as.s->length)
            return py_bool(0);
        text = py_slice(text, start, stop.kind == K_UNSET ? NOTHING : stop, NOTHING);
    }
    return py_bool(py_has_end(text.as.s, part, end));
}

static Value py_starts_with(Value text, Value part, Value start, Value stop)
{
    return py_has_end_between(text, part, start, stop, 0);
}

static Value py_ends_with(Value text, Value part, Value start, Value stop)
{
    return py_has_end_between(text, part, start, stop, 1);
}

static Value py_remove_prefix(Value text, Value part)
{
    text = py_str_value(py_text(text));
    if (!py_has_end(text.as.s, py_str_value(py_only_text(part)), 0))
        return text;
    return py_slice(text, py_int((long long)part.as.s->length), NOTHING, NOTHING);
}

static Value py_remove_suffix(Value text, Value part)
{
    text = py_str_value(py_text(text));
    if (!py_has_end(text.as.s, py_str_value(py_only_text(part)), 1))
        return text;
    return py_slice(text, NOTHING, py_int((long long)(text.as.s->length - part.as.s->length)), NOTHING);
}

/* What stands before a separator, it, and what stands behind it. */
static Value py_parted(Value whole, Value separator, int last)
{
    const Str *text = py_text(whole), *part = py_only_text(separator);
    size_t at, found;
    Value three = py_list();
    if (part->size == 0)
        py_raise_worded("ValueError", py_str("empty separator"));
    for (found = at = py_search(text, part, 0); last && at <= text->size; at = py_search(text, part, at + 1))
        found = at;
    if (found > text->size) {
        py_append(three, last ? py_str("") : py_str_value(text));
        py_append(three, py_str(""));
        py_append(three, last ? py_str_value(text) : py_str(""));
    } else {
        py_push_piece(three, text, 0, found);
        py_append(three, separator);
        py_push_piece(three, text, found + part->size, text->size);
    }
    three.kind = K_TUPLE;
    return three;
}

static Value py_partition(Value text, Value separator)
{
    return py_parted(text, separator, 0);
}

static Value py_partition_right(Value text, Value separator)
{
    return py_parted(text, separator, 1);
}
