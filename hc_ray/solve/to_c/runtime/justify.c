static Value py_justified(Value text, Value width, Value fill, char align)
{
    Format format = {" ", 1, '<', '-', 0, 0, 0, 0, 0, -1};
    text = py_str_value(py_text(text));
    format.align = align;
    format.width = (long)py_index_of(width);
    if (format.width < 0)
        format.width = 0;
    if (fill.kind != K_UNSET) {
        if (py_only_text(fill)->length != 1)
            py_raise("TypeError", "The fill character must be exactly one character long");
        format.fill = fill.as.s->bytes;
        format.fill_size = fill.as.s->size;
    }
    return py_padded(format, text, 0);
}

static Value py_left_justified(Value text, Value width, Value fill)
{
    return py_justified(text, width, fill, '<');
}

static Value py_right_justified(Value text, Value width, Value fill)
{
    return py_justified(text, width, fill, '>');
}

/* str.center puts an odd space left where the width is odd. */
static Value py_centered(Value text, Value width, Value fill)
{
    long long length = (long long)py_text(text)->length, wide = py_index_of(width), missing = wide - length, left;
    if (missing <= 0)
        return py_str_value(py_text(text));
    left = missing / 2 + (missing & wide & 1);
    return py_left_justified(py_right_justified(text, py_int(length + left), fill), width, fill);
}

static Value py_zero_filled(Value text, Value width)
{
    Format format = {"0", 1, '=', '-', 0, 0, 0, 0, 0, -1};
    const Str *held = py_text(text);
    format.width = (long)py_index_of(width);
    if (format.width < 0)
        format.width = 0;
    return py_padded(format, py_str_value(held), held->size > 0 && (held->bytes[0] == '-' || held->bytes[0] == '+'));
}
