static void py_push_piece(Value list, const Str *text, size_t from, size_t to)
{
    py_append(list, py_str_copy(text->bytes + from, to - from));
}

static Value py_split_blanks(const Str *text, long long most)
{
    Value pieces = py_list();
    size_t at = 0, from, size;
    for (;;) {
        while ((size = py_blank_at(text, at)) > 0)
            at += size;
        if (at >= text->size)
            return pieces;
        if (most == 0) {
            py_push_piece(pieces, text, at, text->size);
            return pieces;
        }
        for (from = at; at < text->size && py_blank_at(text, at) == 0;)
            at += py_character_size(text, at);
        py_push_piece(pieces, text, from, at);
        most--;
    }
}

static Value py_split(Value whole, Value separator, Value times)
{
    const Str *text = py_text(whole), *part;
    long long most = times.kind == K_UNSET ? -1 : py_index_of(times);
    Value pieces = py_list();
    size_t from = 0, at;
    if (separator.kind == K_UNSET || separator.kind == K_NONE)
        return py_split_blanks(text, most);
    part = py_only_text(separator);
    if (part->size == 0)
        py_raise_worded("ValueError", py_str("empty separator"));
    for (; most != 0; most--) {
        at = py_search(text, part, from);
        if (at > text->size)
            break;
        py_push_piece(pieces, text, from, at);
        from = at + part->size;
    }
    py_push_piece(pieces, text, from, text->size);
    return pieces;
}

static Value py_split_right(Value whole, Value separator, Value times)
{
    Value all = py_split(whole, separator, UNSET), last;
    long long most = times.kind == K_UNSET ? -1 : py_index_of(times);
    long long count = (long long)all.as.list->count;
    const Str *text = py_text(whole);
    size_t end = text->size, size;
    long long left;
    if (most < 0 || most >= count - (separator.kind == K_STR))
        return all;
    /* Takes the last pieces off, and keeps what is left as it was. */
    for (left = most; left > 0; left--) {
        if (separator.kind != K_STR)
            while ((size = py_blank_before(text, end)) > 0)
                end -= size;
        last = all.as.list->items[count - 1 - (most - left)];
        end -= last.as.s->size;
        if (separator.kind == K_STR)
            end -= separator.as.s->size;
    }
    if (separator.kind != K_STR)
        while ((size = py_blank_before(text, end)) > 0)
            end -= size;
    last = py_slice(all, py_int(count - most), NOTHING, NOTHING);
    all = py_list();
    py_push_piece(all, text, 0, end);
    py_extend(all, last);
    return all;
}

static Value py_split_lines(Value whole, Value keep)
{
    const Str *text = py_text(whole);
    int kept = keep.kind != K_UNSET && py_truth(keep);
    Value lines = py_list();
    size_t from = 0, at = 0, size;
    while (at < text->size) {
        long c;
        size = py_character_size(text, at);
        c = py_code_point(text->bytes + at, size);
        if ((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029) {
            size_t end = at + size;
            if (c == '\r' && end < text->size && text->bytes[end] == '\n')
                end++;
            py_push_piece(lines, text, from, kept ? end : at);
            from = at = end;
        } else
            at += size;
    }
    if (from < text->size)
        py_push_piece(lines, text, from, text->size);
    return lines;
}

static Value py_join(Value separator, Value items)
{
    const Str *between = py_text(separator);
    Buffer buffer = {NULL, 0, 0};
    Value list = py_to_list(items);
    size_t i;
    for (i = 0; i < list.as.list->count; i++) {
        const Str *piece = py_only_text(list.as.list->items[i]);
        if (i > 0)
            py_put(&buffer, between->bytes, between->size);
        py_put(&buffer, piece->bytes, piece->size);
    }
    return py_built(&buffer);
}

/* Strips white space, or the given characters, off the ends that are said. */
static Value py_strip_ends(Value whole, Value characters, int left, int right)
{
    const Str *text = py_text(whole), *set = NULL;
    size_t from = 0, end = text->size, size;
    if (characters.kind != K_UNSET && characters.kind != K_NONE) {
        set = py_only_text(characters);
        py_ascii(set);
    }
    while (left && from < end) {
        size = set == NULL ? py_blank_at(text, from) : memchr(set->bytes, text->bytes[from], set->size) != NULL;
        if (size == 0)
            break;
        from += size;
    }
    while (right && end > from) {
        size = set == NULL ? py_blank_before(text, end) : memchr(set->bytes, text->bytes[end - 1], set->size) != NULL;
        if (size == 0)
            break;
        end -= size;
    }
    return py_str_copy(text->bytes + from, end - from);
}

static Value py_strip(Value whole, Value characters)
{
    return py_strip_ends(whole, characters, 1, 1);
}

static Value py_strip_left(Value whole, Value characters)
{
    return py_strip_ends(whole, characters, 1, 0);
}

static Value py_strip_right(Value whole, Value characters)
{
    return py_strip_ends(whole, characters, 0, 1);
}
