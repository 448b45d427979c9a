static int py_is_upper_letter(int c)
{
    return c >= 'A' && c <= 'Z';
}

static int py_is_lower_letter(int c)
{
    return c >= 'a' && c <= 'z';
}

/* 'u'pper, 'l'ower, 's'wapped, 't'itle or 'c'apital letters. */
static Value py_cased(Value whole, char how)
{
    const Str *text = py_text(whole);
    char *bytes = py_new(text->size + 1);
    int in_word = 0;
    size_t i;
    py_ascii(text);
    for (i = 0; i < text->size; i++) {
        int c = text->bytes[i], letter = py_is_upper_letter(c) || py_is_lower_letter(c);
        int upper = how == 'u' || (how == 's' && py_is_lower_letter(c)) || ((how == 't' || how == 'c') && !in_word);
        in_word = how == 'c' || letter;
        bytes[i] = (char)(!letter ? c : upper ? c & ~32 : c | 32);
    }
    return py_str_of(bytes, text->size, NULL);
}

static Value py_upper(Value text)
{
    return py_cased(text, 'u');
}

static Value py_lower(Value text)
{
    return py_cased(text, 'l');
}

static Value py_swapcase(Value text)
{
    return py_cased(text, 's');
}

static Value py_title(Value text)
{
    return py_cased(text, 't');
}

static Value py_capitalize(Value text)
{
    return py_cased(text, 'c');
}

/* Whether all characters are of a kind, and there are some. */
static Value py_all_are(Value whole, int (*is)(int))
{
    const Str *text = py_text(whole);
    size_t i;
    py_ascii(text);
    for (i = 0; i < text->size; i++)
        if (!is(text->bytes[i]))
            return py_bool(0);
    return py_bool(text->size > 0);
}

static int py_digit(int c)
{
    return c >= '0' && c <= '9';
}

static int py_letter(int c)
{
    return py_is_upper_letter(c) || py_is_lower_letter(c);
}

static int py_letter_or_digit(int c)
{
    return py_letter(c) || py_digit(c);
}

static Value py_is_digit(Value text)
{
    return py_all_are(text, py_digit);
}

static Value py_is_alpha(Value text)
{
    return py_all_are(text, py_letter);
}

static Value py_is_alnum(Value text)
{
    return py_all_are(text, py_letter_or_digit);
}

static Value py_is_space(Value whole)
{
    const Str *text = py_text(whole);
    size_t at = 0, size;
    while ((size = py_blank_at(text, at)) > 0)
        at += size;
    return py_bool(text->size > 0 && at >= text->size);
}

/* Whether there are letters and all are of one case. */
static Value py_is_case(Value whole, int (*is)(int))
{
    const Str *text = py_text(whole);
    size_t i, letters = 0;
    py_ascii(text);
    for (i = 0; i < text->size; i++) {
        if (!py_letter(text->bytes[i]))
            continue;
        if (!is(text->bytes[i]))
            return py_bool(0);
        letters++;
    }
    return py_bool(letters > 0);
}

static Value py_is_upper(Value text)
{
    return py_is_case(text, py_is_upper_letter);
}

static Value py_is_lower(Value text)
{
    return py_is_case(text, py_is_lower_letter);
}
