"""Statements that raise and catch errors: ``setjmp`` where Python has ``try``."""

import ast

from hc_ray.solve.to_c.blocks import block, writer
from hc_ray.solve.to_c.body import Body, condition, expression, quoted
from hc_ray.solve.to_c.calls import builtin
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.tables import ERRORS


@writer(ast.Assert)
def _assert(body: Body, node: ast.Assert) -> bool:
    body.emit(f"if (!({condition(body, node.test).text})) {{")
    with body.indented():
        message = expression(body, node.msg).text if node.msg is not None else quoted("")
        body.emit(f'py_raise_worded("AssertionError", {message});')
    body.emit("}")
    return False


@writer(ast.Raise)
def _raise(body: Body, node: ast.Raise) -> bool:
    raised = node.exc
    if raised is None:
        if not body.caught:
            raise Untranslatable("raise outside of except", node.lineno)
        body.emit(f"py_throw({body.caught[-1]}.error);")
        return True
    arguments: list[ast.expr] = []
    if isinstance(raised, ast.Call):
        arguments = raised.args if not raised.keywords else [raised] * 2
        raised = raised.func
    if builtin(body, raised) in ERRORS and isinstance(raised, ast.Name) and len(arguments) < 2:
        empty = "NOTHING" if raised.id == "SystemExit" else quoted("")
        value = expression(body, arguments[0]).text if arguments else empty
        if raised.id == "KeyError" and not arguments:
            raise Untranslatable("KeyError without a key", node.lineno)
        body.emit(f'py_raise_worded("{raised.id}", {value});')
    elif isinstance(node.exc, ast.Name) and body.is_variable(node.exc.id):
        body.emit(f"py_raise_again({expression(body, node.exc).text});")
    else:
        raise Untranslatable("raise of such an error", node.lineno)
    return True


@writer(ast.Try)
def _try(body: Body, node: ast.Try) -> bool:
    if node.finalbody:
        raise Untranslatable("finally", node.lineno)
    handler = body.fresh("handler")
    before, ends = set(body.assigned), []
    body.emit(f"Handler {handler};")
    body.emit(f"py_try(&{handler});")
    body.emit(f"if (setjmp({handler}.place) == 0) {{")
    with body.indented():
        body.handlers.append(handler)
        ended = block(body, node.body)
        body.handlers.pop()
        if not ended:
            body.emit(f"py_handlers = {handler}.outer;")
            ended = block(body, node.orelse)
    ends.append((ended, body.assigned))
    for clause in node.handlers:
        body.assigned = set(before)
        kinds = _kinds(body, clause)
        tests = " || ".join(f'py_caught({handler}.error, "{kind}")' for kind in kinds)
        body.emit(f"}} else if ({tests}) {{")
        with body.indented():
            if clause.name:
                body.emit(f"{body.place(clause.name)} = py_error({handler}.error);")
                body.assigned.add(clause.name)
            body.caught.append(handler)
            ended = block(body, clause.body)
            body.caught.pop()
            if clause.name and not ended:
                body.emit(f"{body.place(clause.name)} = UNSET;")
                body.assigned.discard(clause.name)
        ends.append((ended, body.assigned))
    body.emit("} else {")
    body.emit(f"    py_throw({handler}.error);")
    body.emit("}")
    reached = [assigned for ended, assigned in ends if not ended]
    body.assigned = set.intersection(*reached) if reached else before
    return not reached


def _kinds(body: Body, clause: ast.ExceptHandler) -> list[str]:
    if clause.type is None:
        return ["BaseException"]
    asked = clause.type.elts if isinstance(clause.type, ast.Tuple) else [clause.type]
    found = [builtin(body, one) for one in asked]
    if not found or any(one not in ERRORS for one in found):
        raise Untranslatable("except of such an error", clause.lineno)
    return found
