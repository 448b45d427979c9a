"""What an instruction shows and names, as frozen values; the other modules of this room find them."""

from hc_ray.domain.task import EnvironmentView
from hc_ray.domain.value import Value

_QUOTES = str.maketrans(dict.fromkeys('"`\u2018\u2019\u201c\u201d', "'"))


class Signature(Value):
    """A function that the instruction names."""

    name: str
    parameters: str | None
    """The text between the parentheses; None if only the name is known, from a shown call."""
    returns: str | None = None
    """The annotation after ``->``."""

    @property
    def head(self) -> str:
        """The first line of its definition, as far as it is known. Without a line break: tokenizers join that to the
        indentation that follows, and a small model goes astray after a lone one."""
        if self.parameters is None:
            return f"def {self.name}("
        return f"def {self.name}({self.parameters}){f' -> {self.returns}' if self.returns else ''}:"


class Call(Value):
    """A call that the instruction shows."""

    call: str
    """One line, as ``ast.unparse`` writes it, with literal arguments."""
    function: str
    expected: str | None
    """``repr`` of its shown value; None if only the call is shown."""
    rejected: bool = False
    """Whether it is shown to raise."""
    sentence: str
    """The sentence or line that contains it."""


class Run(Value):
    """A run of a program that the instruction shows."""

    command: str
    """The shell line as shown; empty for Input/Output blocks, which name no program."""
    stdin: str = ""
    """What an Input block holds, newline-terminated; what a command pipes or redirects stays in the command."""
    output: str | None
    """The exact shown output, newline-terminated; None if there is none."""
    sentence: str


class NamedFile(Value):
    """A file that the instruction names."""

    path: str
    """Relative if it is below the workdir, else absolute."""
    exists: bool
    """Whether it exists in the environment."""
    located: bool
    """Named by a full path, or by a name that is unique in the environment. False for a bare file name in a code span
    of which the environment has nothing: it is taken to lie in the workdir."""


class Spec(Value):
    """An instruction, read once."""

    instruction: str
    workdir: str
    sentences: tuple[str, ...] = ()
    """Sentences, list items, table rows and code lines in order, white space normalised."""
    signatures: tuple[Signature, ...] = ()
    calls: tuple[Call, ...] = ()
    """Each call once; the one with a value wins."""
    runs: tuple[Run, ...] = ()
    files: tuple[NamedFile, ...] = ()
    """In order of first mention, each once."""
    snapshot: EnvironmentView = EnvironmentView()
    """The snapshot of the untouched environment; empty until it is taken."""

    def with_snapshot(self, view: EnvironmentView) -> "Spec":
        return self.model_copy(update={"snapshot": view})

    def sentence_with(self, text: str) -> str:
        """The first sentence that contains ``text``, whatever quotes either uses; else the first; "" if there is
        none."""
        wanted = " ".join(text.translate(_QUOTES).split())
        for sentence in self.sentences:
            if wanted in sentence.translate(_QUOTES):
                return sentence
        return self.sentences[0] if self.sentences else ""
