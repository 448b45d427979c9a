static long py_format_number(const char **at)
{
    long number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        number = number * 10 + (**at - '0');
        if (number > 100000)
            py_give_up("a very wide format");
    }
    return number;
}

static Format py_read_format(const Str *text)
{
    Format format = {" ", 1, 0, '-', 0, 0, 0, 0, 0, -1};
    const char *at = py_bytes(py_str_value(text));
    size_t first = text->size > 0 ? py_character_size(text, 0) : 0;
    if (text->size > first && strchr("<>=^", at[first]) != NULL) {
        format.fill = at;
        format.fill_size = first;
        format.align = at[first];
        at += first + 1;
    } else if (*at != '\0' && strchr("<>=^", *at) != NULL)
        format.align = *at++;
    if (*at == '+' || *at == '-' || *at == ' ')
        format.sign = *at++;
    if (*at == '#')
        format.other = *at++;
    if (*at == '0') {
        format.zero = 1;
        at++;
    }
    format.width = py_format_number(&at);
    if (*at == ',' || *at == '_')
        format.group = *at++;
    if (*at == '.') {
        at++;
        if (*at < '0' || *at > '9')
            py_raise("ValueError", "Format specifier missing precision");
        format.precision = py_format_number(&at);
    }
    if (*at != '\0')
        format.type = *at++;
    if (*at != '\0')
        py_raise("ValueError", "Invalid format specifier");
    return format;
}

/* Fills to the width; after the first `before` bytes for the alignment =. */
static Value py_padded(Format format, Value text, size_t before)
{
    Buffer buffer = {NULL, 0, 0};
    size_t width = (size_t)format.width, i;
    size_t missing = width > text.as.s->length ? width - text.as.s->length : 0;
    size_t left = format.align == '<' ? 0 : format.align == '^' ? missing / 2 : missing;
    if (format.align == '=')
        py_put(&buffer, text.as.s->bytes, before);
    for (i = 0; i < left; i++)
        py_put(&buffer, format.fill, format.fill_size);
    if (format.align == '=')
        py_put(&buffer, text.as.s->bytes + before, text.as.s->size - before);
    else
        py_put_str(&buffer, text);
    for (i = left; i < missing; i++)
        py_put(&buffer, format.fill, format.fill_size);
    return py_built(&buffer);
}

static void py_put_digits(Buffer *buffer, uint64_t number, unsigned base, int upper)
{
    char digits[65];
    size_t at = sizeof digits;
    do {
        digits[--at] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[number % base];
        number /= base;
    } while (number > 0);
    py_put(buffer, digits + at, sizeof digits - at);
}

/* Whether a format writes an integer in another base than 10. */
static int py_has_base(Format format)
{
    return format.type != 0 && strchr("xXob", format.type) != NULL;
}

/* The digits of a number without its sign. */
static Value py_format_digits(Value number, Format format)
{
    Buffer buffer = {NULL, 0, 0};
    double x = number.kind == K_FLOAT ? number.as.f : (double)number.as.i;
    char pattern[8] = "%.*f", text[512];
    uint64_t magnitude;
    unsigned base;
    if (number.kind == K_INT && (format.type == 0 || strchr("dxXob", format.type) != NULL)) {
        magnitude = number.as.i < 0 ? 0 - (uint64_t)number.as.i : (uint64_t)number.as.i;
        if (format.precision >= 0)
            py_raise("ValueError", "Precision not allowed in integer format specifier");
        if (format.other)
            py_put(&buffer, (const char[]){'0', format.type}, py_has_base(format) ? 2 : 0);
        base = !py_has_base(format) ? 10 : format.type == 'b' ? 2 : format.type == 'o' ? 8 : 16;
        py_put_digits(&buffer, magnitude, base, format.type == 'X');
        return py_built(&buffer);
    }
    if (format.type != 0 && strchr("fFeEgG%", format.type) == NULL)
        py_raise("ValueError", "Unknown format code");
    if (format.other || (format.type == 0 && format.precision >= 0) || format.precision > 100)
        py_give_up("a rare format of a number");
    if (number.kind == K_INT && (double)(long long)(x * 0.5) * 2 != x && (x > 9e15 || x < -9e15))
        py_give_up("a great integer formatted as a fraction");
    x = format.type == '%' ? x * 100 : x;
    if (!py_finite(x))
        return py_str(x != x ? (format.type == 'F' || format.type == 'E' || format.type == 'G' ? "NAN" : "nan")
                             : (format.type == 'F' || format.type == 'E' || format.type == 'G' ? "INF" : "inf"));
    x = py_is_negative(x) ? -x : x;
    if (format.type == 0)
        return py_real_text(x);
    pattern[3] = format.type == '%' ? 'f' : format.type;
    snprintf(text, sizeof text, pattern, format.precision < 0 ? 6 : (int)format.precision, x);
    py_put_text(&buffer, text);
    if (format.type == '%')
        py_put_text(&buffer, "%");
    return py_built(&buffer);
}

/* Sets a mark between each three digits before the point. */
static Value py_grouped(Value digits, char mark, size_t size)
{
    Buffer buffer = {NULL, 0, 0};
    const char *bytes = py_bytes(digits);
    size_t whole = strspn(bytes, size == 3 ? "0123456789" : "0123456789abcdefABCDEF"), i;
    for (i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % size == 0)
            py_put(&buffer, &mark, 1);
        py_put(&buffer, bytes + i, 1);
    }
    py_put_text(&buffer, bytes + whole);
    return py_built(&buffer);
}

static Value py_format_str(Value text, Format format)
{
    if (format.type != 0 && format.type != 's')
        py_raise("ValueError", "Unknown format code for a string");
    if (format.sign != '-' || format.group || format.other || format.align == '=')
        py_raise("ValueError", "not allowed in string format specifier");
    if (format.precision >= 0 && (size_t)format.precision < text.as.s->length)
        text = py_slice(text, NOTHING, py_int(format.precision), NOTHING);
    if (format.zero && format.align == 0)
        format.fill = "0";
    format.align = format.align == 0 ? '<' : format.align;
    return py_padded(format, text, 0);
}

/* format(value, text) */
static Value py_format(Value value, Value text)
{
    Buffer buffer = {NULL, 0, 0};
    Value number = py_number(value), digits;
    Format format;
    int negative;
    size_t before;
    if (text.kind == K_UNSET || py_only_text(text)->size == 0)
        return py_to_str(value);
    format = py_read_format(text.as.s);
    if (value.kind == K_STR)
        return py_format_str(value, format);
    if (!py_is_number(number))
        py_raise("TypeError", "unsupported format string");
    if (number.kind == K_INT && format.type == 'c')
        py_give_up("a number formatted as a character");
    digits = py_format_digits(number, format);
    if (format.group) {
        if (format.zero || (format.group == ',' && py_has_base(format)) || format.other)
            py_give_up("a rare format of a number");
        digits = py_grouped(digits, (char)format.group, py_has_base(format) ? 4 : 3);
    }
    negative = number.kind == K_INT ? number.as.i < 0 : number.as.f == number.as.f && py_is_negative(number.as.f);
    if (negative || format.sign != '-')
        py_put(&buffer, negative ? "-" : &format.sign, 1);
    before = buffer.used + (format.other && py_has_base(format) ? 2 : 0);
    py_put_str(&buffer, digits);
    if (format.zero && format.align == 0) {
        format.fill = "0";
        format.align = '=';
    } else if (format.zero && format.fill[0] == ' ' && format.fill_size == 1)
        format.fill = "0";
    format.align = format.align == 0 ? '>' : format.align;
    return py_padded(format, py_built(&buffer), before);
}

/* The value of the n-th place of a text with % signs. */
static Value py_percent_value(Value values, size_t at, size_t count)
{
    if (values.kind != K_TUPLE) {
        if (count != 1 || values.kind == K_DICT)
            py_raise("TypeError", "not enough arguments for format string");
        return values;
    }
    if (values.as.list->count != count)
        py_raise("TypeError", "wrong number of arguments for format string");
    return values.as.list->items[at];
}

/* One value of a text with % signs, as a kind of letter. */
static Value py_percent(Value value, Value format, char letter)
{
    Value number = py_number(value);
    if (letter == 's')
        return py_format(py_to_str(value), format);
    if (letter == 'r')
        return py_format(py_repr(value), format);
    if (!py_is_number(number))
        py_raise("TypeError", "a real number is required");
    if (letter == 'd')
        number = py_int(number.kind == K_INT ? number.as.i : py_whole(number.as.f));
    return py_format(number, format);
}

static Value py_in_base(Value value, const char *format)
{
    return py_format(py_int(py_index_of(value)), py_str(format));
}

static Value py_bin(Value value)
{
    return py_in_base(value, "#b");
}

static Value py_oct(Value value)
{
    return py_in_base(value, "#o");
}

static Value py_hex(Value value)
{
    return py_in_base(value, "#x");
}
