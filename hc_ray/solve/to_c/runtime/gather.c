static Value py_sum(Value items, Value start)
{
    Value total = start.kind == K_UNSET ? py_int(0) : start, item;
    Iter *iter;
    if (total.kind == K_STR)
        py_raise("TypeError", "sum() can't sum strings");
    for (iter = py_iter(items); py_next(iter, &item);)
        total = py_add(total, item);
    return total;
}

static Value py_product(Value items)
{
    Value total = py_int(1), item;
    Iter *iter;
    for (iter = py_iter(items); py_next(iter, &item);)
        total = py_multiply(total, item);
    return total;
}

static Value py_any(Value items)
{
    Value item;
    Iter *iter;
    for (iter = py_iter(items); py_next(iter, &item);)
        if (py_truth(item))
            return py_bool(1);
    return py_bool(0);
}

static Value py_all(Value items)
{
    Value item;
    Iter *iter;
    for (iter = py_iter(items); py_next(iter, &item);)
        if (!py_truth(item))
            return py_bool(0);
    return py_bool(1);
}

static Value py_key_of(Value key, Value item)
{
    return key.kind == K_FUNC ? py_call(key, 1, &item) : item;
}

/* max(), or min() where `least`. */
static Value py_extreme(Value items, Value key, Value otherwise, int least)
{
    Value best = UNSET, best_key = UNSET, item, item_key;
    Iter *iter;
    for (iter = py_iter(items); py_next(iter, &item);) {
        item_key = py_key_of(key, item);
        if (best.kind == K_UNSET || (least ? py_less(item_key, best_key) : py_less(best_key, item_key))) {
            best = item;
            best_key = item_key;
        }
    }
    if (best.kind == K_UNSET && otherwise.kind == K_UNSET)
        py_raise("ValueError", "the argument is empty");
    return best.kind == K_UNSET ? otherwise : best;
}

static Value py_max(Value items, Value key, Value otherwise)
{
    return py_extreme(items, key, otherwise, 0);
}

static Value py_min(Value items, Value key, Value otherwise)
{
    return py_extreme(items, key, otherwise, 1);
}

/* Sorts pairs of keys and values; equal ones stay in their order. */
static void py_merge_sort(Value *pairs, Value *space, size_t count)
{
    size_t half = count / 2, left = 0, right = half, at;
    if (count < 2)
        return;
    py_merge_sort(pairs, space, half);
    py_merge_sort(pairs + 2 * half, space, count - half);
    memcpy(space, pairs, 2 * count * sizeof *pairs);
    for (at = 0; at < count; at++) {
        int from_right = right < count && (left >= half || py_less(space[2 * right], space[2 * left]));
        size_t from = from_right ? right++ : left++;
        pairs[2 * at] = space[2 * from];
        pairs[2 * at + 1] = space[2 * from + 1];
    }
}

static Value py_sort(Value list, Value key, Value reverse)
{
    Value *pairs, *space;
    size_t i, count;
    int backwards = reverse.kind != K_UNSET && py_truth(reverse);
    if (list.kind != K_LIST)
        py_raise("AttributeError", "object has no such method");
    count = list.as.list->count;
    pairs = py_new((2 * count + 1) * sizeof *pairs);
    space = py_new((2 * count + 1) * sizeof *space);
    for (i = 0; i < count; i++) {
        Value item = list.as.list->items[backwards ? count - 1 - i : i];
        pairs[2 * i] = py_key_of(key, item);
        pairs[2 * i + 1] = item;
    }
    py_merge_sort(pairs, space, count);
    for (i = 0; i < count; i++)
        list.as.list->items[backwards ? count - 1 - i : i] = pairs[2 * i + 1];
    return NOTHING;
}

static Value py_sorted(Value items, Value key, Value reverse)
{
    Value list = py_to_list(items);
    py_sort(list, key, reverse);
    return list;
}

/* next() of a generator: what was found, or the default. */
static Value py_next_found(Value found, Value otherwise)
{
    if (found.kind != K_UNSET)
        return found;
    if (otherwise.kind == K_UNSET)
        py_raise("StopIteration", "");
    return otherwise;
}

/* functools.reduce() */
static Value py_reduce(Value function, Value items, Value start)
{
    Value both[2], item;
    Iter *iter = py_iter(items);
    both[0] = start;
    if (start.kind == K_UNSET && !py_next(iter, &both[0]))
        py_raise("TypeError", "reduce() of empty iterable with no initial value");
    while (py_next(iter, &item)) {
        both[1] = item;
        both[0] = py_call(function, 2, both);
    }
    return both[0];
}
