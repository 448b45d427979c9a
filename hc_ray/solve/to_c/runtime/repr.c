static void py_put_text(Buffer *buffer, const char *text)
{
    py_put(buffer, text, strlen(text));
}

static void py_put_repr_str(Buffer *buffer, const Str *text)
{
    char quote = memchr(text->bytes, '\'', text->size) && !memchr(text->bytes, '"', text->size) ? '"' : '\'';
    char escaped[8];
    size_t i, size;
    py_put(buffer, &quote, 1);
    for (i = 0; i < text->size; i += size) {
        long c;
        size = py_character_size(text, i);
        c = py_code_point(text->bytes + i, size);
        if (c == quote || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escaped, sizeof escaped, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 32 || (c >= 127 && c <= 160) || c == 173)
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)(c & 0xff));
        else {
            if (c > 0x377)
                py_give_up("the quoted form of rare characters");
            py_put(buffer, text->bytes + i, size);
            continue;
        }
        py_put_text(buffer, escaped);
    }
    py_put(buffer, &quote, 1);
}

static void py_put_entries(Buffer *buffer, const Dict *dict)
{
    size_t i, written = 0;
    py_put_text(buffer, "{");
    for (i = 0; i < dict->filled; i++) {
        if (!dict->entries[i].held)
            continue;
        if (written++ > 0)
            py_put_text(buffer, ", ");
        py_put_repr(buffer, dict->entries[i].key);
        py_put_text(buffer, ": ");
        py_put_repr(buffer, dict->entries[i].value);
    }
    py_put_text(buffer, "}");
}

static void py_put_members(Buffer *buffer, Value items, const char *open, const char *close)
{
    Iter *iter;
    Value item;
    size_t written = 0;
    py_check_depth();
    py_put_text(buffer, open);
    for (iter = py_iter(items); py_next(iter, &item);) {
        if (written++ > 0)
            py_put_text(buffer, ", ");
        py_put_repr(buffer, item);
    }
    py_put_text(buffer, close);
}

static void py_put_range(Buffer *buffer, const Range *range)
{
    py_put_text(buffer, "range(");
    py_put_str(buffer, py_int_text(range->start));
    py_put_text(buffer, ", ");
    py_put_str(buffer, py_int_text(range->stop));
    if (range->step != 1) {
        py_put_text(buffer, ", ");
        py_put_str(buffer, py_int_text(range->step));
    }
    py_put_text(buffer, ")");
}

static void py_put_repr(Buffer *buffer, Value value)
{
    switch (value.kind) {
    case K_STR:
        py_put_repr_str(buffer, value.as.s);
        return;
    case K_LIST:
        py_put_members(buffer, value, "[", "]");
        return;
    case K_TUPLE:
        py_put_members(buffer, value, "(", value.as.list->count == 1 ? ",)" : ")");
        return;
    case K_SET:
        py_put_members(buffer, value, value.as.set->count ? "{" : "set(", value.as.set->count ? "}" : ")");
        return;
    case K_DICT:
        if (value.as.dict->kind != PLAIN)
            py_give_up("the text of such a dictionary");
        py_put_entries(buffer, value.as.dict);
        return;
    case K_VIEW:
        py_put_text(buffer, value.as.view->what == 'k' ? "dict_keys(" : "dict_");
        py_put_text(buffer, value.as.view->what == 'k' ? "" : value.as.view->what == 'v' ? "values(" : "items(");
        py_put_members(buffer, value, "[", "])");
        return;
    case K_RANGE:
        py_put_range(buffer, value.as.range);
        return;
    case K_ERROR:
        py_give_up("the quoted form of an error");
    default:
        py_put_str(buffer, py_to_str(value));
    }
}

static Value py_repr(Value value)
{
    Buffer buffer = {NULL, 0, 0};
    py_put_repr(&buffer, value);
    return py_built(&buffer);
}

static Value py_error_text(const Error *error)
{
    if (!error->worded)
        py_give_up("the text of an error of Python's own");
    return strcmp(error->type, "KeyError") == 0 ? py_repr(error->value) : py_to_str(error->value);
}

static Value py_to_str(Value value)
{
    switch (value.kind) {
    case K_UNSET:
        return py_str("");
    case K_NONE:
        return py_str("None");
    case K_BOOL:
        return py_str(value.as.i ? "True" : "False");
    case K_INT:
        return py_int_text(value.as.i);
    case K_FLOAT:
        return py_real_text(value.as.f);
    case K_STR:
        return value;
    case K_WRITTEN:
        return value.as.written->text;
    case K_ITER:
    case K_FUNC:
        py_give_up("the text of a function or iterator");
    case K_ERROR:
        return py_error_text(value.as.error);
    default:
        return py_repr(value);
    }
}
