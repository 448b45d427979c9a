/* a * b + 0 exactly as two reals (Dekker). */
static void py_two_product(double a, double b, double *high, double *low)
{
    double ta = 134217729.0 * a, tb = 134217729.0 * b;
    double ah = ta - (ta - a), bh = tb - (tb - b);
    double al = a - ah, bl = b - bh;
    *high = a * b;
    *low = ((ah * bh - *high) + ah * bl + al * bh) + al * bl;
}

static double py_sqrt_real(double x)
{
    uint64_t bits, mantissa, root = 0, rest = 0;
    int exponent, i;
    if (x < 0)
        py_raise("ValueError", "math domain error");
    if (x == 0 || !py_finite(x))
        return x;
    if (x < 2.2250738585072014e-308)
        return py_sqrt_real(x * 18014398509481984.0) / 134217728.0;
    memcpy(&bits, &x, sizeof bits);
    exponent = (int)(bits >> 52) - 1075;
    mantissa = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    if (exponent & 1) {
        mantissa <<= 1;
        exponent--;
    }
    /* 55 binary digits of the root: 27 pairs of the mantissa, then 28 of zeros. */
    for (i = 26; i >= -28; i--) {
        rest = rest << 2 | (i >= 0 ? mantissa >> (2 * i) & 3 : 0);
        root <<= 1;
        if (rest >= 2 * root + 1) {
            rest -= 2 * root + 1;
            root++;
        }
    }
    exponent = exponent / 2 - 28;
    root |= rest != 0; /* decides where the last digits are half */
    x = (double)root;
    for (; exponent > 0; exponent--)
        x *= 2;
    for (; exponent < 0; exponent++)
        x /= 2;
    return x;
}

static Value py_power_real(double x, double y)
{
    double high = 1, low = 0, extra, error, square = x, square_low = 0;
    long long times;
    if (y == 0 || x == 1)
        return py_float(1);
    if (x == 0 && y < 0)
        py_raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    if (y == 0.5 && x >= 0)
        return py_float(py_sqrt_real(x));
    if (!py_finite(x) || !py_finite(y) || y != py_floor_real(y) || py_magnitude(y) > 1e6)
        py_give_up("a power with a fraction");
    if (y == 1)
        return py_float(x);
    if (x == 0)
        return py_float(y - 2 * py_floor_real(y / 2) != 0 ? x : 0);
    /* In pairs of reals, so that the last digit is right. */
    for (times = (long long)py_magnitude(y); times > 0; times /= 2) {
        if (times & 1) {
            extra = high * square_low + low * square;
            py_two_product(high, square, &high, &low);
            error = low + extra;
            low = error - ((high + error) - high);
            high += error;
        }
        if (times == 1)
            break;
        extra = 2 * square * square_low;
        py_two_product(square, square, &square, &square_low);
        error = square_low + extra;
        square_low = error - ((square + error) - square);
        square += error;
        if (!(py_magnitude(square) < 1e290 && py_magnitude(square) > 1e-250))
            py_give_up("a power too great or small");
    }
    if (!(py_magnitude(high) < 1e290 && py_magnitude(high) > 1e-250))
        py_give_up("a power too great or small");
    if (y > 0)
        return py_float(high + low);
    square = 1 / high;
    py_two_product(square, high, &extra, &error);
    return py_float(square + ((1 - extra) - error - square * low) / high);
}

static Value py_power(Value a, Value b)
{
    long long result = 1, base, times;
    a = py_number(a);
    b = py_number(b);
    if (!py_both_int(a, b) || b.as.i < 0)
        return py_power_real(py_real(a), py_real(b));
    base = a.as.i;
    if (base == 1 || base == 0 || base == -1)
        return py_int(b.as.i == 0 ? 1 : base == -1 && b.as.i % 2 == 0 ? 1 : base);
    for (times = b.as.i; times > 0; times--)
        result = py_multiplied(result, base);
    return py_int(result);
}

/* pow() with three arguments. */
static Value py_power_modulo(Value a, Value b, Value m)
{
    long long base, times = py_index_of(b), modulus = py_index_of(m), result = 1;
    if (times < 0 || modulus <= 0)
        py_give_up("pow() with a negative argument");
    base = py_modulo(py_int(py_index_of(a)), m).as.i;
    for (result %= modulus; times > 0; times /= 2) {
        if (times & 1)
            result = py_multiplied(result, base) % modulus;
        if (times > 1)
            base = py_multiplied(base, base) % modulus;
    }
    return py_int(result);
}

static Value py_bits(Value a, Value b, char what)
{
    int both_bool = a.kind == K_BOOL && b.kind == K_BOOL;
    long long x, y;
    if (a.kind == K_SET && b.kind == K_SET)
        return what == '&' ? py_intersection(a, b) : what == '|' ? py_union(a, b) : py_symmetric_difference(a, b);
    if (a.kind == K_DICT || a.kind == K_VIEW || b.kind == K_VIEW)
        py_give_up("arithmetic of dictionaries");
    x = py_index_of(a);
    y = py_index_of(b);
    x = what == '&' ? x & y : what == '|' ? x | y : x ^ y;
    return both_bool ? py_bool(x != 0) : py_int(x);
}

static Value py_bit_and(Value a, Value b)
{
    return py_bits(a, b, '&');
}

static Value py_bit_or(Value a, Value b)
{
    return py_bits(a, b, '|');
}

static Value py_bit_xor(Value a, Value b)
{
    return py_bits(a, b, '^');
}

static Value py_invert(Value a)
{
    return py_int(~py_index_of(a));
}

static Value py_shift_left(Value a, Value b)
{
    long long number = py_index_of(a), by = py_index_of(b);
    if (by < 0)
        py_raise("ValueError", "negative shift count");
    for (; by > 0 && number != 0; by--)
        number = py_multiplied(number, 2);
    return py_int(number);
}

static Value py_shift_right(Value a, Value b)
{
    long long number = py_index_of(a), by = py_index_of(b);
    if (by < 0)
        py_raise("ValueError", "negative shift count");
    if (by > 63)
        return py_int(number < 0 ? -1 : 0);
    return py_int(number < 0 ? ~(~number >> by) : number >> by);
}
