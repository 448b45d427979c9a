static void __attribute__((noreturn)) py_operands(void)
{
    py_raise("TypeError", "unsupported operand types");
}

/* Whether both are integers; else both must be numbers. */
static int py_both_int(Value a, Value b)
{
    if ((a.kind != K_INT && a.kind != K_FLOAT) || (b.kind != K_INT && b.kind != K_FLOAT))
        py_operands();
    return a.kind == K_INT && b.kind == K_INT;
}

static long long py_added(long long a, long long b)
{
    long long result;
    if (__builtin_add_overflow(a, b, &result))
        py_give_up("an integer of more than 64 bits");
    return result;
}

static long long py_multiplied(long long a, long long b)
{
    long long result;
    if (__builtin_mul_overflow(a, b, &result))
        py_give_up("an integer of more than 64 bits");
    return result;
}

static Value py_add(Value a, Value b)
{
    if (a.kind == K_STR && (b.kind == K_STR || b.kind == K_WRITTEN))
        return py_join_two(a.as.s, py_text(b));
    if ((a.kind == K_LIST || a.kind == K_TUPLE) && a.kind == b.kind) {
        Value both = py_list();
        py_extend(both, a);
        py_extend(both, b);
        both.kind = a.kind;
        return both;
    }
    if (a.kind == K_DICT && a.as.dict->kind == COUNTER)
        py_give_up("arithmetic of counters");
    a = py_number(a);
    b = py_number(b);
    if (py_both_int(a, b))
        return py_int(py_added(a.as.i, b.as.i));
    return py_float(py_real(a) + py_real(b));
}

/* What += does: a list grows. */
static Value py_add_to(Value a, Value b)
{
    if (a.kind != K_LIST)
        return py_add(a, b);
    py_extend(a, b);
    return a;
}

static Value py_subtract(Value a, Value b)
{
    long long result;
    if (a.kind == K_SET && b.kind == K_SET)
        return py_difference(a, b);
    if (a.kind == K_VIEW || b.kind == K_VIEW || a.kind == K_DICT)
        py_give_up("arithmetic of dictionaries");
    a = py_number(a);
    b = py_number(b);
    if (!py_both_int(a, b))
        return py_float(py_real(a) - py_real(b));
    if (__builtin_sub_overflow(a.as.i, b.as.i, &result))
        py_give_up("an integer of more than 64 bits");
    return py_int(result);
}

static Value py_multiply(Value a, Value b)
{
    if (a.kind == K_STR || a.kind == K_LIST || a.kind == K_TUPLE)
        return py_repeat(a, b);
    if (b.kind == K_STR || b.kind == K_LIST || b.kind == K_TUPLE)
        return py_repeat(b, a);
    a = py_number(a);
    b = py_number(b);
    if (py_both_int(a, b))
        return py_int(py_multiplied(a.as.i, b.as.i));
    return py_float(py_real(a) * py_real(b));
}

/* A text, list or tuple several times. */
static Value py_repeat(Value whole, Value times)
{
    long long left = py_index_of(times);
    Value result = py_list();
    if (whole.kind == K_STR) {
        Buffer buffer = {NULL, 0, 0};
        for (; left > 0 && whole.as.s->size > 0; left--)
            py_put_str(&buffer, whole);
        return py_built(&buffer);
    }
    for (; left > 0 && whole.as.list->count > 0; left--)
        py_extend(result, whole);
    result.kind = whole.kind;
    return result;
}

static double py_exact_real(long long number)
{
    double real = (double)number;
    if (number > 9007199254740992LL || number < -9007199254740992LL)
        py_give_up("a quotient of integers of more than 53 bits");
    return real;
}

static Value py_divide(Value a, Value b)
{
    a = py_number(a);
    b = py_number(b);
    if (py_both_int(a, b)) {
        if (b.as.i == 0)
            py_raise_worded("ZeroDivisionError", py_str("division by zero"));
        return py_float(py_exact_real(a.as.i) / py_exact_real(b.as.i));
    }
    if (py_real(b) == 0)
        py_raise("ZeroDivisionError", "float division by zero");
    return py_float(py_real(a) / py_real(b));
}

/* The rest of a division, with the sign of the first; exact. */
static double py_rest(double x, double y)
{
    double left = py_magnitude(x), by = py_magnitude(y);
    if (!py_finite(x) || y != y)
        return x - x + y;
    if (!py_finite(y))
        return x;
    while (left >= by) {
        double part = by;
        while (part <= left - part)
            part *= 2;
        left -= part;
    }
    return py_is_negative(x) ? -left : left;
}

/* Both results of divmod() for reals. */
static void py_divmod_real(double x, double y, double *quotient, double *rest)
{
    double div;
    if (y == 0)
        py_raise("ZeroDivisionError", "float divmod()");
    *rest = py_rest(x, y);
    div = (x - *rest) / y;
    if (*rest != 0) {
        if ((y < 0) != (*rest < 0)) {
            *rest += y;
            div -= 1;
        }
    } else
        *rest = py_zero_like(y);
    if (div != 0) {
        *quotient = py_floor_real(div);
        if (div - *quotient > 0.5)
            *quotient += 1;
    } else
        *quotient = py_zero_like(x / y);
}

static Value py_floor_divide(Value a, Value b)
{
    double quotient, rest;
    long long result;
    a = py_number(a);
    b = py_number(b);
    if (!py_both_int(a, b)) {
        py_divmod_real(py_real(a), py_real(b), &quotient, &rest);
        return py_float(quotient);
    }
    if (b.as.i == 0)
        py_raise("ZeroDivisionError", "integer division or modulo by zero");
    if (b.as.i == -1)
        return py_negative(a);
    result = a.as.i / b.as.i;
    return py_int(a.as.i % b.as.i != 0 && (a.as.i < 0) != (b.as.i < 0) ? result - 1 : result);
}

static Value py_modulo(Value a, Value b)
{
    double quotient, rest;
    long long result;
    if (a.kind == K_STR)
        py_give_up("a format that is not written in the program");
    a = py_number(a);
    b = py_number(b);
    if (!py_both_int(a, b)) {
        py_divmod_real(py_real(a), py_real(b), &quotient, &rest);
        return py_float(rest);
    }
    if (b.as.i == 0)
        py_raise("ZeroDivisionError", "integer modulo by zero");
    if (b.as.i == -1)
        return py_int(0);
    result = a.as.i % b.as.i;
    return py_int(result != 0 && (result < 0) != (b.as.i < 0) ? result + b.as.i : result);
}

static Value py_divmod(Value a, Value b)
{
    Value both = py_list();
    py_append(both, py_floor_divide(a, b));
    py_append(both, py_modulo(a, b));
    both.kind = K_TUPLE;
    return both;
}

static Value py_negative(Value a)
{
    a = py_number(a);
    if (a.kind == K_INT)
        return py_subtract(py_int(0), a);
    return py_float(-py_real(a));
}

static Value py_positive(Value a)
{
    a = py_number(a);
    py_real(a);
    return a;
}

static Value py_abs(Value a)
{
    a = py_number(a);
    if (a.kind == K_INT)
        return a.as.i < 0 ? py_negative(a) : a;
    return py_float(py_magnitude(py_real(a)));
}
