"""Texts as two equal runs agree on them. A model sees what is true, and an address, a time, a duration, a
process number, a commit's hash or a temporary path is true of one run alone: whoever compares two runs, or answers as a
function of a prompt, looks at this form. (Host names need no rule: every sandbox has the same.)"""

import json
import re
from collections.abc import Callable
from typing import Any

from hc_ray.domain.normalisation import normal

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # A commit's hash says when it was made; the hash of a content (SHA-256) says the same in every run, and stays.
    (re.compile(r"\b[0-9a-f]{40}\b"), "<commit>"),
    (re.compile(r"(?<=\[)([\w./-]+ (?:\(root-commit\) )?)[0-9a-f]{7,12}(?=\])"), r"\1<commit>"),
    (re.compile(r"\b\d+\.\d+ ?(?:s|sec|seconds?)\b|\b\d+(?:\.\d+)? ?(?:ms|us|µs|ns|milliseconds?)\b"), "<duration>"),
    (re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:[.,]\d+)?\b"), "<time>"),
    # A time in seconds whose fraction happens to be short: one in 50,000 has two digits. The product takes such a
    # number for an answer, so the two runs may still differ by it.
    (re.compile(r"\b1[6-9]\d{8}\.\d{1,2}\b"), "<time>"),
    # A job that a shell started: "[1] 4711".
    (re.compile(r"(?m)^(\[\d+\]) \d+$"), r"\1 <process>"),
    (re.compile(r"\b(process (?:id|number))[ =:]+\d+", re.IGNORECASE), r"\1 <process>"),
)  # fmt: skip


def normal_form(text: str) -> str:
    """``text`` without what is true of one run alone."""
    text = normal(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def of_data(data: Any, form: Callable[[str], str] = normal_form) -> Any:
    """Plain data with every text in normal form; names, numbers and order as they are."""
    if isinstance(data, str):
        return form(data)
    if isinstance(data, dict):
        return {name: of_data(value, form) for name, value in data.items()}
    return [of_data(one, form) for one in data] if isinstance(data, list | tuple) else data


def of_body(body: bytes) -> bytes:
    """A request's JSON as it was sent where its texts are in normal form already; else written anew in that form."""
    sent = json.loads(body)
    return body if (told := of_data(sent)) == sent else json.dumps(told, ensure_ascii=False).encode()


def of_request(wire: bytes) -> bytes:
    """A request as it came on the wire. Where its body's texts are in normal form already, every byte stands as it was
    sent; else the body does in normal form, and without its length."""
    head, parted, body = wire.partition(b"\r\n\r\n")
    try:
        told = of_body(body)
    except ValueError:
        return wire
    if told != body:
        head = re.sub(rb"(?i)(?<=\r\ncontent-length: )\d+", b"-", head)
    return head + parted + told
