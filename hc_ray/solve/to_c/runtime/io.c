/* A text that comes from outside. */
static Value py_read_str(const char *bytes, size_t size)
{
    const unsigned char *b = (const unsigned char *)bytes;
    size_t i, more;
    for (i = 0; i < size; i += more) {
        size_t k;
        more = b[i] < 0x80 ? 1 : b[i] < 0xc2 ? 0 : b[i] < 0xe0 ? 2 : b[i] < 0xf0 ? 3 : b[i] < 0xf5 ? 4 : 0;
        for (k = 1; k < more && more > 0; k++)
            if (i + k >= size || (b[i + k] & 0xc0) != 0x80)
                more = 0;
        if (more == 0 || (b[i] == 0xe0 && b[i + 1] < 0xa0) || (b[i] == 0xed && b[i + 1] > 0x9f)
            || (b[i] == 0xf0 && b[i + 1] < 0x90) || (b[i] == 0xf4 && b[i + 1] > 0x8f))
            py_give_up("input that is not UTF-8");
    }
    return py_str_of(bytes, size, NULL);
}

static Value py_input_text; /* all of the standard input, once it is read */

static size_t py_input_at; /* how much of it is taken */

/* Reads the standard input. */
static const Str *py_input_all(void)
{
    size_t size = 0, room = 65536, got;
    char *bytes;
    if (py_input_text.kind == K_STR)
        return py_input_text.as.s;
    bytes = malloc(room);
    while (bytes != NULL && (got = fread(bytes + size, 1, room - size, stdin)) > 0) {
        size += got;
        if (size == room)
            bytes = realloc(bytes, room *= 2);
    }
    if (bytes == NULL)
        py_give_up("out of memory");
    py_input_text = py_read_str(bytes, size);
    return py_input_text.as.s;
}

/* sys.stdin.read() */
static Value py_input_rest(void)
{
    const Str *all = py_input_all();
    size_t from = py_input_at;
    py_input_at = all->size;
    return from == 0 ? py_input_text : py_str_copy(all->bytes + from, all->size - from);
}

/* The standard input without its last line break. */
static Value py_input_whole(void)
{
    Value text = py_input_rest();
    if (text.as.s->size == 0 || text.as.s->bytes[text.as.s->size - 1] != '\n')
        return text;
    return py_str_of(text.as.s->bytes, text.as.s->size - 1, NULL);
}

/* sys.stdin.readline() */
static Value py_input_line(void)
{
    const Str *all = py_input_all();
    size_t from = py_input_at;
    const char *end = memchr(all->bytes + from, '\n', all->size - from);
    py_input_at = end == NULL ? all->size : (size_t)(end - all->bytes) + 1;
    return py_str_copy(all->bytes + from, py_input_at - from);
}

static int py_next_line(Iter *iter, Value *item)
{
    (void)iter;
    *item = py_input_line();
    return item->as.s->size > 0;
}

/* sys.stdin, to go through its lines */
static Value py_input_lines(void)
{
    return py_iter_value(py_new_iter(py_next_line, NOTHING));
}

/* input() */
static Value py_input(Value prompt)
{
    Value line;
    if (prompt.kind != K_UNSET)
        py_write(stdout, py_to_str(prompt));
    line = py_input_line();
    if (line.as.s->size == 0)
        py_raise_worded("EOFError", py_str("EOF when reading a line"));
    if (line.as.s->bytes[line.as.s->size - 1] == '\n')
        line = py_str_copy(line.as.s->bytes, line.as.s->size - 1);
    return line;
}

static void py_write(FILE *file, Value text)
{
    fwrite(text.as.s->bytes, 1, text.as.s->size, file);
}

/* sys.stdout.write() */
static Value py_write_out(FILE *file, Value text)
{
    py_only_text(text);
    py_write(file, text);
    return py_int((long long)text.as.s->length);
}

static void py_print(FILE *file, Value values, Value between, Value end)
{
    size_t i;
    for (i = 0; i < values.as.list->count; i++) {
        if (i > 0)
            py_write(file, between);
        py_write(file, py_to_str(values.as.list->items[i]));
    }
    py_write(file, end);
}

/* print() with one value */
static void py_print_one(Value value)
{
    py_write(stdout, py_to_str(value));
    fputc('\n', stdout);
}

static Value py_separator(Value given, const char *otherwise)
{
    if (given.kind == K_UNSET || given.kind == K_NONE)
        return py_str(otherwise);
    py_only_text(given);
    return given;
}

static Value py_exit(Value status)
{
    py_raise_worded("SystemExit", status.kind == K_UNSET ? NOTHING : py_number(status));
}

/* The arguments of the program from one on. */
static Value py_arguments(int count, char **given, int from)
{
    Value all = py_list();
    for (; from < count; from++)
        py_append(all, py_read_str(given[from], strlen(given[from])));
    return all;
}

static Value py_argv; /* sys.argv */

/* Whether a text is digits with at most one point in them, which does not end it. */
static int py_is_plain_number(const char *text)
{
    const char *c = text + (*text == '-' || *text == '+');
    c += strspn(c, "0123456789");
    if (*c == '.')
        c++;
    else if (c == text + (*text == '-' || *text == '+'))
        return 0;
    return (c[0] == '\0' && c[-1] != '.') || (c[0] != '\0' && c[strspn(c, "0123456789")] == '\0');
}

static Value py_written(Value text)
{
    const char *bytes = py_bytes(text), *digits = bytes + (*bytes == '-');
    Value made = {K_WRITTEN, {0}};
    made.as.written = py_new(sizeof *made.as.written);
    made.as.written->text = text;
    if (digits[strspn(digits, "0123456789")] == '\0' && (digits[0] != '0' || digits[1] == '\0'))
        made.as.written->number = py_to_int(text, UNSET);
    else
        made.as.written->number = py_to_float(text);
    return made;
}

/* Arguments that are all numbers become such, which are written as they were read. */
static Value py_typed(Value arguments)
{
    Value typed = py_list(), text;
    size_t i, known = 0;
    for (i = 0; i < arguments.as.list->count; i++) {
        const char *bytes, *digits;
        text = py_strip(arguments.as.list->items[i], UNSET);
        bytes = py_bytes(text);
        digits = bytes + (*bytes == '-' || *bytes == '+');
        if (text.as.s->size > 0) {
            known++;
            if (text.as.s->size != strlen(bytes) || !py_is_plain_number(bytes))
                return arguments;
            if (digits[0] == '0' && digits[1] != '\0' && digits[strspn(digits, "0123456789")] == '\0')
                return arguments;
            text = py_written(text);
        }
        py_append(typed, text);
    }
    return known > 0 ? typed : arguments;
}

static Value py_by_text(const Value *given, Value **cells)
{
    (void)cells;
    return py_to_str(given[0]);
}

/* Prints what the function returned: several values one a line, and nothing for None. */
static void py_print_result(Value result)
{
    Iter *iter;
    Value item;
    Buffer text = {NULL, 0, 0};
    if (result.kind == K_NONE)
        return;
    if (result.kind == K_SET)
        result = py_sorted(result, py_func(py_by_text, 1, 1, NULL, 0), UNSET);
    if (result.kind == K_STR || result.kind == K_DICT || !py_can_iterate(result))
        py_put_str(&text, py_to_str(result));
    else
        for (iter = py_iter(result); py_next(iter, &item);) {
            py_put_str(&text, py_to_str(item));
            py_put(&text, "\n", 1);
        }
    if (text.used > 0 && text.bytes[text.used - 1] != '\n')
        py_put(&text, "\n", 1);
    py_write(stdout, py_built(&text));
}

static int py_can_iterate(Value value)
{
    switch (value.kind) {
    case K_STR:
    case K_LIST:
    case K_TUPLE:
    case K_RANGE:
    case K_DICT:
    case K_VIEW:
    case K_SET:
    case K_ITER:
        return 1;
    default:
        return 0;
    }
}
