/* How many characters UTF-8 holds. */
static size_t py_characters(const char *bytes, size_t size)
{
    size_t i, length = 0;
    for (i = 0; i < size; i++)
        length += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return length;
}

static Value py_str_of(const char *bytes, size_t size, Buffer *buffer)
{
    Str *text = py_new(sizeof *text);
    Value made = {K_STR, {0}};
    text->bytes = bytes;
    text->size = size;
    text->length = py_characters(bytes, size);
    text->buffer = buffer;
    made.as.s = text;
    return made;
}

/* A text that is written in this program. */
static Value py_str(const char *bytes)
{
    return py_str_of(bytes, strlen(bytes), NULL);
}

/* A copy of some bytes; those of one byte are made once. */
static Value py_str_copy(const char *bytes, size_t size)
{
    static Value single[128];
    char *copy;
    if (size == 1 && (unsigned char)*bytes < 128 && single[(int)*bytes].kind == K_STR)
        return single[(int)*bytes];
    copy = py_new(size + 1);
    if (size > 0)
        memcpy(copy, bytes, size);
    if (size == 1 && (unsigned char)*bytes < 128)
        return single[(int)*bytes] = py_str_of(copy, size, NULL);
    return py_str_of(copy, size, NULL);
}

/* The text as C has it, for messages. */
static const char *py_bytes(Value text)
{
    return py_str_copy(text.as.s->bytes, text.as.s->size).as.s->bytes;
}

static void py_put(Buffer *buffer, const char *bytes, size_t size)
{
    if (buffer->used + size > buffer->room) {
        size_t room = (buffer->used + size) * 2 + 16;
        char *wider = py_new(room);
        if (buffer->used > 0)
            memcpy(wider, buffer->bytes, buffer->used);
        buffer->bytes = wider;
        buffer->room = room;
    }
    if (size > 0)
        memcpy(buffer->bytes + buffer->used, bytes, size);
    buffer->used += size;
}

static void py_put_str(Buffer *buffer, Value text)
{
    py_put(buffer, text.as.s->bytes, text.as.s->size);
}

static Value py_built(Buffer *buffer)
{
    return py_str_of(buffer->used > 0 ? buffer->bytes : "", buffer->used, NULL);
}

/* Appends in place where the left text is the last in its buffer. */
static Value py_join_two(const Str *left, const Str *right)
{
    Buffer *buffer = left->buffer;
    Str *text = py_new(sizeof *text);
    Value made = {K_STR, {0}};
    if (buffer == NULL || left->bytes != buffer->bytes || left->size != buffer->used) {
        buffer = py_new(sizeof *buffer);
        buffer->room = left->buffer != NULL ? 2 * (left->size + right->size) : left->size + right->size + 1;
        buffer->bytes = py_new(buffer->room);
        py_put(buffer, left->bytes, left->size);
    }
    py_put(buffer, right->bytes, right->size);
    text->bytes = buffer->bytes;
    text->size = left->size + right->size;
    text->length = left->length + right->length;
    text->buffer = buffer;
    made.as.s = text;
    return made;
}

/* The texts of an f-string, one after the other. */
static Value py_concat(size_t count, const Value *texts)
{
    Buffer buffer = {NULL, 0, 0};
    size_t i;
    for (i = 0; i < count; i++)
        py_put_str(&buffer, texts[i]);
    return py_built(&buffer);
}

/* The text that a method is called of. */
static const Str *py_text(Value value)
{
    if (value.kind == K_WRITTEN)
        value = value.as.written->text;
    if (value.kind != K_STR)
        py_raise("AttributeError", "object has no such method");
    return value.as.s;
}

/* The text that is asked for as an argument. */
static const Str *py_only_text(Value value)
{
    if (value.kind != K_STR)
        py_raise("TypeError", "a string is needed");
    return value.as.s;
}

static Value py_str_value(const Str *text)
{
    Value made = {K_STR, {0}};
    made.as.s = text;
    return made;
}

/* The byte at which a character begins. */
static size_t py_offset(const Str *text, size_t index)
{
    size_t at = 0;
    if (text->size == text->length)
        return index;
    while (index > 0) {
        at++;
        while (at < text->size && ((unsigned char)text->bytes[at] & 0xc0) == 0x80)
            at++;
        index--;
    }
    return at;
}

static size_t py_character_size(const Str *text, size_t at)
{
    size_t size = 1;
    while (at + size < text->size && ((unsigned char)text->bytes[at + size] & 0xc0) == 0x80)
        size++;
    return size;
}

static long py_code_point(const char *bytes, size_t size)
{
    const unsigned char *b = (const unsigned char *)bytes;
    if (size == 1)
        return b[0];
    if (size == 2)
        return (b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    if (size == 3)
        return (b[0] & 0x0f) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    return (b[0] & 0x07) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

static Value py_chr(Value code)
{
    long long c = py_index_of(code);
    char b[4];
    if (c < 0 || c > 0x10ffff)
        py_raise("ValueError", "chr() arg not in range(0x110000)");
    if (c >= 0xd800 && c < 0xe000)
        py_give_up("half of a surrogate pair");
    if (c < 0x80) {
        b[0] = (char)c;
        return py_str_copy(b, 1);
    }
    if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        b[1] = (char)(0x80 | (c & 0x3f));
        return py_str_copy(b, 2);
    }
    if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));
        return py_str_copy(b, 3);
    }
    b[0] = (char)(0xf0 | c >> 18);
    b[1] = (char)(0x80 | (c >> 12 & 0x3f));
    b[2] = (char)(0x80 | (c >> 6 & 0x3f));
    b[3] = (char)(0x80 | (c & 0x3f));
    return py_str_copy(b, 4);
}

static Value py_ord(Value text)
{
    const Str *s = py_only_text(text);
    if (s->length != 1)
        py_raise("TypeError", "ord() expected a character");
    return py_int(py_code_point(s->bytes, s->size));
}

/* Whether a character is white space, as str.isspace has it. */
static int py_blank(long c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680
        || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* How many bytes of white space begin at a place; 0 for none. */
static size_t py_blank_at(const Str *text, size_t at)
{
    size_t size = at < text->size ? py_character_size(text, at) : 0;
    return size > 0 && py_blank(py_code_point(text->bytes + at, size)) ? size : 0;
}

/* How many bytes of white space end at a place; 0 for none. */
static size_t py_blank_before(const Str *text, size_t at)
{
    size_t size = 1;
    if (at == 0)
        return 0;
    while (size < at && ((unsigned char)text->bytes[at - size] & 0xc0) == 0x80)
        size++;
    return py_blank(py_code_point(text->bytes + at - size, size)) ? size : 0;
}

/* The first place of a text in another, from a byte on; the size of the whole plus 1 where it is not. */
static size_t py_search(const Str *text, const Str *part, size_t from)
{
    size_t at = from;
    if (part->size == 0)
        return from <= text->size ? from : text->size + 1;
    while (at + part->size <= text->size) {
        const char *found = memchr(text->bytes + at, part->bytes[0], text->size - part->size + 1 - at);
        if (found == NULL)
            break;
        at = (size_t)(found - text->bytes);
        if (memcmp(found, part->bytes, part->size) == 0)
            return at;
        at++;
    }
    return text->size + 1;
}

/* Letters of other alphabets would need Unicode's tables. */
static void py_ascii(const Str *text)
{
    if (text->size != text->length)
        py_give_up("letters outside of ASCII");
}
