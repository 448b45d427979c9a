/* Zeroed memory. */
static void *py_new(size_t size)
{
    static char *space;
    static size_t left;
    char *made;
    size = (size + 15) / 16 * 16;
    if (size > left) {
        size_t taken = size > 65536 ? size : 1048576;
        made = calloc(taken, 1);
        if (made == NULL)
            py_give_up("out of memory");
        if (size > 65536)
            return made;
        space = made;
        left = taken;
    }
    made = space;
    space += size;
    left -= size;
    return made;
}

/* Ends the program where it cannot do what Python does. */
static void __attribute__((noreturn)) py_give_up(const char *why)
{
    fflush(stdout);
    fprintf(stderr, "cannot go on: %s\n", why);
    exit(1);
}

static Handler *py_handlers; /* the open try statements, the innermost first */

static void py_try(Handler *handler)
{
    handler->outer = py_handlers;
    py_handlers = handler;
}

static void __attribute__((noreturn)) py_throw(Error error)
{
    Handler *handler = py_handlers;
    if (handler != NULL) {
        py_handlers = handler->outer;
        handler->error = error;
        longjmp(handler->place, 1);
    }
    fflush(stdout);
    if (strcmp(error.type, "SystemExit") == 0) {
        if (error.value.kind == K_NONE)
            exit(0);
        if (error.value.kind == K_INT || error.value.kind == K_BOOL)
            exit((int)(error.value.as.i & 0xff));
        fprintf(stderr, "%s\n", py_bytes(py_to_str(error.value)));
        exit(1);
    }
    fprintf(stderr, "%s: %s\n", error.type, py_bytes(py_to_str(error.value)));
    exit(1);
}

/* An error in other words than Python's: its text may not be asked for. */
static void __attribute__((noreturn)) py_raise(const char *type, const char *text)
{
    Error error = {NULL, UNSET, 0};
    error.type = type;
    error.value = py_str(text);
    py_throw(error);
}

/* An error in Python's words. */
static void __attribute__((noreturn)) py_raise_worded(const char *type, Value value)
{
    Error error = {NULL, UNSET, 1};
    error.type = type;
    error.value = value;
    py_throw(error);
}

static void __attribute__((noreturn)) py_raise_again(Value error)
{
    if (error.kind != K_ERROR)
        py_raise("TypeError", "exceptions must derive from BaseException");
    py_throw(*error.as.error);
}

static Value py_error(Error error)
{
    Error *held = py_new(sizeof *held);
    Value made = {K_ERROR, {0}};
    *held = error;
    made.as.error = held;
    return made;
}

/* Whether an error is one of a type. */
static int py_caught(Error error, const char *type)
{
    static const char *const parents[][2] = {
        {"IndexError", "LookupError"}, {"KeyError", "LookupError"}, {"ZeroDivisionError", "ArithmeticError"},
        {"OverflowError", "ArithmeticError"}, {"RecursionError", "RuntimeError"}, {"UnboundLocalError", "NameError"},
        {"NotImplementedError", "RuntimeError"}};
    size_t i;
    if (strcmp(type, "BaseException") == 0 || strcmp(type, error.type) == 0)
        return 1;
    if (strcmp(type, "Exception") == 0)
        return strcmp(error.type, "SystemExit") != 0;
    for (i = 0; i < sizeof parents / sizeof parents[0]; i++)
        if (strcmp(parents[i][0], error.type) == 0 && strcmp(parents[i][1], type) == 0)
            return 1;
    return 0;
}

static uintptr_t py_stack; /* where the stack began */

/* Called where a function may call itself. */
static void py_check_depth(void)
{
    int here = 0;
    uintptr_t place = (uintptr_t)&here;
    if (py_stack - place > 6000000u && place - py_stack > 6000000u)
        py_raise("RecursionError", "maximum recursion depth exceeded");
}

static Value py_int(long long number)
{
    Value made = {K_INT, {0}};
    made.as.i = number;
    return made;
}

static Value py_bool(int truth)
{
    Value made = {K_BOOL, {0}};
    made.as.i = truth != 0;
    return made;
}

static Value py_float(double number)
{
    Value made = {K_FLOAT, {0}};
    made.as.f = number;
    return made;
}

static Value *py_cell(Value value)
{
    Value *cell = py_new(sizeof *cell);
    *cell = value;
    return cell;
}

/* What a name stands for, once it was given a value. */
static Value py_bound(Value value, const char *name)
{
    if (value.kind == K_UNSET)
        py_raise("UnboundLocalError", name);
    return value;
}

static Value py_func(Value (*call)(const Value *, Value **), size_t least, size_t most, Value **cells, size_t count)
{
    Func *func = py_new(sizeof *func);
    Value made = {K_FUNC, {0}};
    func->call = call;
    func->least = least;
    func->most = most;
    func->cells = py_new((count + 1) * sizeof *cells);
    if (count > 0)
        memcpy(func->cells, cells, count * sizeof *cells);
    made.as.func = func;
    return made;
}

static Value py_call(Value function, size_t count, const Value *given)
{
    Value all[16];
    size_t i;
    py_check_depth();
    if (function.kind != K_FUNC)
        py_raise("TypeError", "object is not callable");
    if (count < function.as.func->least || count > function.as.func->most || function.as.func->most > 16)
        py_raise("TypeError", "wrong number of arguments");
    for (i = 0; i < 16; i++)
        all[i] = i < count ? given[i] : UNSET;
    return function.as.func->call(all, function.as.func->cells);
}

/* The number that a value stands for, if it does. */
static Value py_number(Value value)
{
    if (value.kind == K_WRITTEN)
        return value.as.written->number;
    if (value.kind == K_BOOL)
        value.kind = K_INT;
    return value;
}

static long long py_index_of(Value value)
{
    value = py_number(value);
    if (value.kind != K_INT)
        py_raise("TypeError", "an integer is needed");
    return value.as.i;
}

static int py_truth(Value value)
{
    value = py_number(value);
    switch (value.kind) {
    case K_NONE:
        return 0;
    case K_FLOAT:
        return value.as.f != 0;
    case K_INT:
        return value.as.i != 0;
    case K_STR:
        return value.as.s->size > 0;
    case K_LIST:
    case K_TUPLE:
    case K_RANGE:
    case K_DICT:
    case K_VIEW:
    case K_SET:
        return py_length(value) > 0;
    default:
        return 1;
    }
}

static size_t py_range_length(const Range *range)
{
    if (range->step > 0 ? range->start >= range->stop : range->start <= range->stop)
        return 0;
    if (range->step > 0)
        return ((size_t)range->stop - (size_t)range->start - 1) / (size_t)range->step + 1;
    return ((size_t)range->start - (size_t)range->stop - 1) / (0 - (size_t)range->step) + 1;
}

static size_t py_length(Value value)
{
    switch (value.kind) {
    case K_STR:
        return value.as.s->length;
    case K_LIST:
    case K_TUPLE:
        return value.as.list->count;
    case K_DICT:
        return value.as.dict->count;
    case K_VIEW:
        return value.as.view->dict->count;
    case K_SET:
        return value.as.set->count;
    case K_RANGE:
        return py_range_length(value.as.range);
    default:
        py_raise("TypeError", "object has no len()");
    }
}
