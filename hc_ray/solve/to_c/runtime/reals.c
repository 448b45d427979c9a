static double py_real(Value value)
{
    value = py_number(value);
    if (value.kind == K_INT)
        return (double)value.as.i;
    if (value.kind != K_FLOAT)
        py_raise("TypeError", "a number is needed");
    return value.as.f;
}

static double py_infinity(void)
{
    return strtod("inf", NULL);
}

static double py_magnitude(double x)
{
    return x < 0 ? -x : x == 0 ? 0.0 : x;
}

static int py_finite(double x)
{
    return x - x == 0;
}

static int py_is_negative(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 63);
}

/* A zero with the sign of a number. */
static double py_zero_like(double x)
{
    return py_is_negative(x) ? -0.0 : 0.0;
}

static double py_floor_real(double x)
{
    double whole;
    if (!py_finite(x) || py_magnitude(x) >= 4503599627370496.0)
        return x;
    whole = (double)(long long)x;
    return whole > x ? whole - 1 : whole;
}

static long long py_whole(double x)
{
    if (x != x)
        py_raise("ValueError", "cannot convert float NaN to integer");
    if (!py_finite(x))
        py_raise("OverflowError", "cannot convert float infinity to integer");
    if (x >= 9223372036854775808.0 || x < -9223372036854775808.0)
        py_give_up("an integer of more than 64 bits");
    return (long long)x;
}
