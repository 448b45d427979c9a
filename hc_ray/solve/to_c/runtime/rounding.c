/* Makes the last digit before the exponent one greater; whether that needs no carry. Below a power of two reals are
   nearer to each other than above it, so that this may be read back where the nearest text is not. */
static int py_raise_last_digit(char *text)
{
    char *last = strchr(text, 'e') - 1;
    if (*last < '0' || *last > '8')
        return 0;
    ++*last;
    return 1;
}

/* The shortest text that is read back as the same number, as repr() has it. */
static Value py_real_text(double x)
{
    char text[64];
    int digits, exponent;
    if (x != x)
        return py_str("nan");
    if (!py_finite(x))
        return py_str(x > 0 ? "inf" : "-inf");
    for (digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x || (py_raise_last_digit(text) && strtod(text, NULL) == x))
            break;
    }
    exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", decimals > 0 ? decimals : 1, x);
    }
    return py_str_copy(text, strlen(text));
}

static Value py_int_text(long long number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    return py_str_copy(text, strlen(text));
}

/* An integer rounded to tens, hundreds and so on, where `places` is negative; half goes to the even neighbour. */
static Value py_round_int(Value value, long long places)
{
    long long unit = 1, rest;
    if (places >= 0)
        return value;
    if (places < -18)
        return py_int(0);
    for (; places < 0; places++)
        unit *= 10;
    rest = py_modulo(value, py_int(unit)).as.i;
    value.as.i = value.as.i - rest;
    if (rest > unit / 2 || (rest == unit / 2 && value.as.i / unit % 2 != 0))
        value.as.i = py_added(value.as.i, unit);
    return value;
}

/* round() to some decimals; half goes to the even neighbour. */
static Value py_round(Value value, Value decimals)
{
    char text[512];
    double x, whole;
    long long places;
    value = py_number(value);
    if (value.kind == K_INT)
        return py_round_int(value, decimals.kind == K_UNSET || decimals.kind == K_NONE ? 0 : py_index_of(decimals));
    x = py_real(value);
    if (decimals.kind == K_UNSET || decimals.kind == K_NONE) {
        py_whole(x);
        whole = py_floor_real(x);
        if (x - whole > 0.5 || (x - whole == 0.5 && (long long)whole % 2 != 0))
            whole += 1;
        return py_int(py_whole(whole));
    }
    places = py_index_of(decimals);
    if (!py_finite(x) || places > 120)
        return value;
    if (places < 0)
        py_give_up("a number with a fraction rounded to tens");
    snprintf(text, sizeof text, "%.*f", (int)places, x);
    return py_float(strtod(text, NULL));
}

/* An integer of a text in a base; -1 in *fault where it is none. */
static long long py_parse_int(const Str *text, int base, int *fault)
{
    size_t at = 0, end = text->size, size;
    int negative, digits = 0;
    long long number = 0;
    *fault = 0;
    while ((size = py_blank_at(text, at)) > 0)
        at += size;
    while (end > at && (size = py_blank_before(text, end)) > 0)
        end -= size;
    negative = at < end && text->bytes[at] == '-';
    if (at < end && (text->bytes[at] == '-' || text->bytes[at] == '+'))
        at++;
    if (at + 1 < end && text->bytes[at] == '0' && (base == 16 || base == 2 || base == 8)
        && (text->bytes[at + 1] | 32) == (base == 16 ? 'x' : base == 2 ? 'b' : 'o')) {
        at += 2;
        digits = at < end && text->bytes[at] == '_';
        at += (size_t)digits;
        digits = 0;
    }
    for (; at < end; at++) {
        int c = (unsigned char)text->bytes[at];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (c >= 128)
            py_give_up("digits outside of ASCII");
        if (c == '_' && digits > 0 && at + 1 < end && text->bytes[at - 1] != '_')
            continue;
        if (digit >= base) {
            *fault = 1;
            return 0;
        }
        digits++;
        number = py_multiplied(number, base);
        number = py_added(number, negative ? -digit : digit);
    }
    *fault = digits == 0 || text->bytes[end - 1] == '_';
    return number;
}

static Value py_to_int(Value value, Value base)
{
    Buffer message = {NULL, 0, 0};
    Value number = py_number(value), text;
    int fault, radix = base.kind == K_UNSET ? 10 : (int)py_index_of(base);
    long long result;
    if (base.kind != K_UNSET && value.kind != K_STR)
        py_raise("TypeError", "int() can't convert non-string with explicit base");
    if (radix < 2 || radix > 36)
        py_give_up("int() with base 0");
    if (number.kind == K_INT || number.kind == K_FLOAT)
        return number.kind == K_INT ? number : py_int(py_whole(number.as.f));
    if (value.kind != K_STR)
        py_raise("TypeError", "int() argument must be a string or a number");
    result = py_parse_int(value.as.s, radix, &fault);
    if (fault) {
        text = py_str("invalid literal for int() with base ");
        py_put_str(&message, text);
        py_put_str(&message, py_int_text(radix));
        py_put(&message, ": ", 2);
        py_put_str(&message, py_repr(value));
        py_raise_worded("ValueError", py_built(&message));
    }
    return py_int(result);
}

/* Whether a text without surrounding blanks is a number as float() takes it. */
static int py_is_real(const char *text)
{
    const char *c = text;
    int digits = 0;
    c += *c == '-' || *c == '+';
    for (; *c >= '0' && *c <= '9'; c++)
        digits++;
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++)
            digits++;
    if (digits == 0)
        return 0;
    if (*c == 'e' || *c == 'E') {
        c += c[1] == '-' || c[1] == '+' ? 2 : 1;
        for (digits = 0; *c >= '0' && *c <= '9'; c++)
            digits++;
    }
    return digits > 0 && *c == '\0';
}

static Value py_to_float(Value value)
{
    Buffer held = {NULL, 0, 0}, message = {NULL, 0, 0};
    Value number = py_number(value);
    const char *bytes, *name;
    size_t i;
    if (number.kind == K_INT || number.kind == K_FLOAT)
        return py_float(py_real(number));
    if (value.kind != K_STR)
        py_raise("TypeError", "float() argument must be a string or a number");
    bytes = py_bytes(py_strip(value, UNSET));
    for (i = 0; bytes[i] != '\0'; i++) {
        int between = i > 0 && bytes[i - 1] >= '0' && bytes[i - 1] <= '9' && bytes[i + 1] >= '0' && bytes[i + 1] <= '9';
        if ((unsigned char)bytes[i] >= 128)
            py_give_up("digits outside of ASCII");
        if (bytes[i] != '_' || !between)
            py_put(&held, bytes + i, 1);
    }
    py_put(&held, "", 1);
    if (strlen(held.bytes) + 1 == held.used && py_is_real(held.bytes))
        return py_float(strtod(held.bytes, NULL));
    for (i = 0; held.bytes[i] != '\0'; i++)
        held.bytes[i] = (char)(held.bytes[i] | 32);
    name = held.bytes + (held.bytes[0] == '-' || held.bytes[0] == '+');
    if (strcmp(name, "inf") == 0 || strcmp(name, "infinity") == 0 || strcmp(name, "nan") == 0)
        return py_float(bytes[0] == '-' ? -strtod(name, NULL) : strtod(name, NULL));
    py_put(&message, "could not convert string to float: ", 35);
    py_put_str(&message, py_repr(value));
    py_raise_worded("ValueError", py_built(&message));
}
