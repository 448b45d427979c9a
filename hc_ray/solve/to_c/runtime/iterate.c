static int py_next_item(Iter *iter, Value *item)
{
    const List *list = iter->source.as.list;
    if (iter->at >= list->count)
        return 0;
    *item = list->items[iter->at++];
    return 1;
}

static int py_next_character(Iter *iter, Value *item)
{
    const Str *text = iter->source.as.s;
    size_t size;
    if (iter->at >= text->size)
        return 0;
    size = py_character_size(text, iter->at);
    *item = py_str_copy(text->bytes + iter->at, size);
    iter->at += size;
    return 1;
}

static int py_next_number(Iter *iter, Value *item)
{
    if (iter->at >= iter->count)
        return 0;
    *item = py_int(iter->number);
    if (++iter->at < iter->count)
        iter->number += iter->source.as.range->step;
    return 1;
}

static int py_next_entry(Iter *iter, Value *item)
{
    const Dict *dict = iter->source.as.dict;
    if (dict->count != iter->count)
        py_raise("RuntimeError", "dictionary changed size during iteration");
    while (iter->at < dict->filled && !dict->entries[iter->at].held)
        iter->at++;
    if (iter->at >= dict->filled)
        return 0;
    *item = py_entry_part(&dict->entries[iter->at++], (int)iter->number);
    return 1;
}

static int py_next_member(Iter *iter, Value *item)
{
    const Set *set = iter->source.as.set;
    if (set->count != iter->count)
        py_raise("RuntimeError", "Set changed size during iteration");
    while (iter->at < set->slots && (set->keys[iter->at].kind == K_UNSET || set->keys[iter->at].kind == K_ERROR))
        iter->at++;
    if (iter->at >= set->slots)
        return 0;
    *item = set->keys[iter->at++];
    return 1;
}

static Iter *py_new_iter(int (*next)(Iter *, Value *), Value source)
{
    Iter *iter = py_new(sizeof *iter);
    iter->next = next;
    iter->source = source;
    return iter;
}

static Iter *py_iter_range(Value source)
{
    Iter *iter = py_new_iter(py_next_number, source);
    iter->number = source.as.range->start;
    iter->count = py_length(source);
    return iter;
}

static Iter *py_iter_entries(Value dict, int what)
{
    Iter *iter = py_new_iter(py_next_entry, dict);
    iter->number = what;
    iter->count = dict.as.dict->count;
    return iter;
}

static Iter *py_iter_view(Value view)
{
    Value dict = {K_DICT, {0}};
    dict.as.dict = view.as.view->dict;
    return py_iter_entries(dict, view.as.view->what);
}

static Iter *py_iter_members(Value set)
{
    Iter *iter = py_new_iter(py_next_member, set);
    iter->count = set.as.set->count;
    return iter;
}

/* What goes through a value. */
static Iter *py_iter(Value source)
{
    switch (source.kind) {
    case K_ITER:
        return source.as.iter;
    case K_LIST:
    case K_TUPLE:
        return py_new_iter(py_next_item, source);
    case K_STR:
        return py_new_iter(py_next_character, source);
    case K_RANGE:
        return py_iter_range(source);
    case K_DICT:
        return py_iter_entries(source, 'k');
    case K_VIEW:
        return py_iter_view(source);
    case K_SET:
        return py_iter_members(source);
    default:
        py_raise("TypeError", "object is not iterable");
    }
}

/* The next value, if there is one; what is through stays so. */
static int py_next(Iter *iter, Value *item)
{
    if (iter->next == NULL)
        return 0;
    if (iter->next(iter, item))
        return 1;
    iter->next = NULL;
    return 0;
}

static Value py_iter_value(Iter *iter)
{
    Value made = {K_ITER, {0}};
    made.as.iter = iter;
    return made;
}

static Value py_to_iter(Value source)
{
    return py_iter_value(py_iter(source));
}

static Value py_next_value(Value iter, Value otherwise)
{
    Value item;
    if (iter.kind != K_ITER)
        py_raise("TypeError", "object is not an iterator");
    if (py_next(iter.as.iter, &item))
        return item;
    if (otherwise.kind == K_UNSET)
        py_raise("StopIteration", "");
    return otherwise;
}

static Value py_range(Value first, Value stop, Value step)
{
    Range *range = py_new(sizeof *range);
    Value made = {K_RANGE, {0}};
    range->start = stop.kind == K_UNSET ? 0 : py_index_of(first);
    range->stop = py_index_of(stop.kind == K_UNSET ? first : stop);
    range->step = step.kind == K_UNSET ? 1 : py_index_of(step);
    if (range->step == 0)
        py_raise("ValueError", "range() arg 3 must not be zero");
    made.as.range = range;
    return made;
}

static int py_next_numbered(Iter *iter, Value *item)
{
    Value both[2];
    if (!py_next(iter->parts[0], &both[1]))
        return 0;
    both[0] = py_int(iter->number++);
    *item = py_tuple_of(2, both);
    return 1;
}

/* An iterator over several others. */
static Iter *py_iter_of(int (*next)(Iter *, Value *), Value function, size_t count, const Value *sources)
{
    Iter *iter = py_new_iter(next, NOTHING);
    size_t i;
    iter->function = function;
    iter->parts = py_new((count + 1) * sizeof *iter->parts);
    iter->parts_count = count;
    for (i = 0; i < count; i++)
        iter->parts[i] = py_iter(sources[i]);
    return iter;
}

static Value py_enumerate(Value source, Value start)
{
    Iter *iter = py_iter_of(py_next_numbered, NOTHING, 1, &source);
    iter->number = start.kind == K_UNSET ? 0 : py_index_of(start);
    return py_iter_value(iter);
}

static int py_next_zipped(Iter *iter, Value *item)
{
    Value all = py_list(), part;
    size_t i;
    for (i = 0; i < iter->parts_count; i++) {
        if (!py_next(iter->parts[i], &part))
            return 0;
        py_append(all, part);
    }
    all.kind = K_TUPLE;
    *item = all;
    return i > 0;
}

static Value py_zip(size_t count, const Value *sources)
{
    return py_iter_value(py_iter_of(py_next_zipped, NOTHING, count, sources));
}

static int py_next_mapped(Iter *iter, Value *item)
{
    Value given[16];
    size_t i;
    for (i = 0; i < iter->parts_count; i++)
        if (!py_next(iter->parts[i], &given[i]))
            return 0;
    *item = py_call(iter->function, iter->parts_count, given);
    return 1;
}

static Value py_map(Value function, size_t count, const Value *sources)
{
    return py_iter_value(py_iter_of(py_next_mapped, function, count, sources));
}

static int py_next_filtered(Iter *iter, Value *item)
{
    while (py_next(iter->parts[0], item))
        if (py_truth(iter->function.kind == K_NONE ? *item : py_call(iter->function, 1, item)))
            return 1;
    return 0;
}

static Value py_filter(Value function, Value source)
{
    return py_iter_value(py_iter_of(py_next_filtered, function, 1, &source));
}

static int py_next_reversed(Iter *iter, Value *item)
{
    if (iter->at == 0)
        return 0;
    *item = py_item(iter->source, py_int((long long)--iter->at));
    return 1;
}

static Value py_reversed(Value source)
{
    Iter *iter;
    if (source.kind == K_DICT || source.kind == K_VIEW)
        source = py_to_list(source);
    if (source.kind == K_STR && source.as.s->size != source.as.s->length)
        source = py_to_list(source);
    if (source.kind != K_STR && source.kind != K_LIST && source.kind != K_TUPLE && source.kind != K_RANGE)
        py_raise("TypeError", "object is not reversible");
    iter = py_new_iter(py_next_reversed, source);
    iter->at = py_length(source);
    return py_iter_value(iter);
}
