static Value py_sqrt(Value x)
{
    return py_float(py_sqrt_real(py_real(x)));
}

static Value py_floor(Value x)
{
    x = py_number(x);
    return x.kind == K_INT ? x : py_int(py_whole(py_floor_real(py_real(x))));
}

static Value py_ceil(Value x)
{
    x = py_number(x);
    return x.kind == K_INT ? x : py_int(py_whole(-py_floor_real(-py_real(x))));
}

static Value py_trunc(Value x)
{
    x = py_number(x);
    return x.kind == K_INT ? x : py_int(py_whole(py_real(x)));
}

static Value py_fabs(Value x)
{
    return py_float(py_magnitude(py_real(x)));
}

static Value py_gcd(Value a, Value b)
{
    Value rest;
    a = py_abs(py_int(py_index_of(a)));
    b = py_abs(py_int(py_index_of(b)));
    while (b.as.i != 0) {
        rest = py_modulo(a, b);
        a = b;
        b = rest;
    }
    return a;
}

static Value py_lcm(Value a, Value b)
{
    Value common = py_gcd(a, b);
    return common.as.i == 0 ? common : py_abs(py_multiply(py_floor_divide(a, common), b));
}

static Value py_factorial(Value n)
{
    long long i, count = py_index_of(n);
    Value product = py_int(1);
    if (count < 0)
        py_raise("ValueError", "factorial() not defined for negative values");
    for (i = 2; i <= count; i++)
        product = py_multiply(product, py_int(i));
    return product;
}

static Value py_isqrt(Value n)
{
    long long number = py_index_of(n), root;
    if (number < 0)
        py_raise("ValueError", "isqrt() argument must be nonnegative");
    root = (long long)py_sqrt_real((double)number);
    while (root > 0 && (root > 3037000499LL || root * root > number))
        root--;
    while (root < 3037000499LL && (root + 1) * (root + 1) <= number)
        root++;
    return py_int(root);
}

static Value py_math_power(Value a, Value b)
{
    return py_power_real(py_real(a), py_real(b));
}

static Value py_is_nan(Value x)
{
    return py_bool(py_real(x) != py_real(x));
}

static Value py_is_inf(Value x)
{
    return py_bool(!py_finite(py_real(x)) && py_real(x) == py_real(x));
}

static Value py_is_integer(Value x)
{
    x = py_number(x);
    if (x.kind != K_FLOAT)
        py_raise("AttributeError", "object has no such method");
    return py_bool(py_finite(x.as.f) && py_floor_real(x.as.f) == x.as.f);
}

static Value py_bit_length(Value x)
{
    long long number = py_index_of(x), length = 0;
    for (; number != 0; number /= 2)
        length++;
    return py_int(length);
}

static Value py_combinations(Value n, Value k)
{
    long long count = py_index_of(n), of = py_index_of(k), i;
    Value result = py_int(1);
    if (count < 0 || of < 0)
        py_raise("ValueError", "must be a non-negative integer");
    if (of > count)
        return py_int(0);
    of = of > count - of ? count - of : of;
    for (i = 1; i <= of; i++)
        result = py_floor_divide(py_multiply(result, py_int(count - of + i)), py_int(i));
    return result;
}

static Value py_is_int(Value value)
{
    value = py_number(value);
    return py_bool(value.kind == K_INT);
}

static Value py_is_float(Value value)
{
    value = py_number(value);
    return py_bool(value.kind == K_FLOAT);
}

static Value py_is_bool(Value value)
{
    return py_bool(value.kind == K_BOOL);
}

static Value py_is_str(Value value)
{
    return py_bool(value.kind == K_STR);
}

static Value py_is_list(Value value)
{
    return py_bool(value.kind == K_LIST);
}

static Value py_is_tuple(Value value)
{
    return py_bool(value.kind == K_TUPLE);
}

static Value py_is_dict(Value value)
{
    return py_bool(value.kind == K_DICT);
}

static Value py_is_set(Value value)
{
    return py_bool(value.kind == K_SET);
}
